"""What the server writes to its disk of single clients."""

from dataclasses import dataclass

from unstale.errors import ConfigError, UnknownNameError
from unstale.privacy.sealing import Seal

ENCRYPTED, WITHOUT_MEMORY = "encrypted", "without_memory"
CHECKPOINTS = ("plain", ENCRYPTED, WITHOUT_MEMORY)


@dataclass(frozen=True, slots=True)
class Storage:
    """What is written to the disk of single clients: surrogates, and the content of checkpoints.

    Example:
        >>> Storage(checkpoints="encrypted")
        Traceback (most recent call last):
        ...
        unstale.errors.ConfigError: Storage: `key` should say where the key is if checkpoints are \
encrypted: env:NAME or file:PATH. Found nothing.
    """

    surrogates: bool = False
    """Whether samples of some surrogates are written into the run folder at the end of a run, for
    the report page."""
    checkpoints: str = "plain"
    """`plain`; `encrypted`: checkpoints, and on Flower the journal of accepted updates, are
    encrypted with `key`; `without_memory`: what the method remembers of clients is left out, so
    that a resumed run begins anew with it."""
    key: str | None = None
    """Where the key of encrypted checkpoints is: `env:NAME` (an environment variable) or
    `file:PATH`. It is 32 random bytes in base64."""

    def __post_init__(self) -> None:
        if self.checkpoints not in CHECKPOINTS:
            raise UnknownNameError("Storage: `checkpoints`", str(self.checkpoints), CHECKPOINTS)
        if self.encrypts and not self.key:
            raise ConfigError(
                "Storage: `key` should say where the key is if checkpoints are encrypted: "
                "env:NAME or file:PATH. Found nothing."
            )
        if self.key and not self.encrypts:
            raise ConfigError(
                'Storage: `key` should come with checkpoints = "encrypted". Found it with '
                f"{self.checkpoints!r}, which encrypts nothing."
            )

    @property
    def encrypts(self) -> bool:
        """Whether checkpoints are encrypted."""
        return self.checkpoints == ENCRYPTED

    @property
    def keeps_memory(self) -> bool:
        """Whether checkpoints hold what the method remembers of clients."""
        return self.checkpoints != WITHOUT_MEMORY

    def seal(self) -> Seal | None:
        """Return what encrypts checkpoints; None if they are not encrypted.

        Raises:
            ConfigError: If the key is not there.
        """
        return Seal.from_source(self.key) if self.encrypts and self.key else None
