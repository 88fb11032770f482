r"""Encryption of what the server writes to its disk: AES-256-GCM, by `cryptography`.

A sealed file is a mark, then blocks of at most 64 MiB, each with its own random nonce:

```
b"unstale sealed 1\n"   nonce (12 bytes)   ciphertext and tag   nonce   …
```

What a block is bound to, beside the key: the name of the file, its number, and whether it is the
last one. So a file under another name, or one with blocks removed, cannot be opened. Whoever has
no key can still put an older file of the same name in the place of a newer one.
"""

import base64
import binascii
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError

MARK = b"unstale sealed 1\n"
_BLOCK, _NONCE, _TAG = 64 << 20, 12, 16
_KEY_BYTES = 32
_HOW = "Make one with: openssl rand -base64 32"


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypts and decrypts files with one key.

    Example:
        >>> seal = Seal(bytes(32))
        >>> seal.open(seal.close(b"surrogates", "a.sealed"), "a.sealed")
        b'surrogates'
    """

    key: bytes = field(repr=False)
    """The key: 32 bytes."""

    @classmethod
    def from_source(cls, source: str) -> "Seal":
        """Return the seal whose key is where `source` says.

        Args:
            source: `env:NAME` for an environment variable or `file:PATH` for a file, which holds
                32 random bytes in base64.

        Raises:
            ConfigError: If there is no such key, or `cryptography` is not installed.
        """
        kind, colon, name = source.partition(":")
        if not colon or kind not in ("env", "file") or not name:
            raise ConfigError(
                "The key of checkpoints should be given as env:NAME (an environment variable) or "
                f"file:PATH. Found {source!r}, which is neither."
            )
        found = os.environ.get(name) if kind == "env" else _file_text(Path(name))
        if not found:
            raise ConfigError(
                f"The key of checkpoints should be in {source}. Found nothing there. {_HOW}"
            )
        _ciphers()
        return cls(_decoded(found, source))

    def close(self, content: bytes, name: str) -> bytes:
        """Return `content` encrypted, bound to the name of its file."""
        cipher = _ciphers().AESGCM(self.key)
        parts = [content[at : at + _BLOCK] for at in range(0, len(content), _BLOCK)] or [b""]
        sealed = [MARK]
        for number, part in enumerate(parts):
            nonce = secrets.token_bytes(_NONCE)
            about = _about(name, number, number == len(parts) - 1)
            sealed += [nonce, cipher.encrypt(nonce, part, about)]
        return b"".join(sealed)

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return the content of a sealed file.

        Raises:
            ConfigError: If the key is another one, or the file is not what `close` made.
        """
        from cryptography.exceptions import InvalidTag

        cipher = _ciphers().AESGCM(self.key)
        size = _NONCE + _BLOCK + _TAG
        body = sealed[len(MARK) :] if sealed.startswith(MARK) else b""
        blocks = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        try:
            return b"".join(
                cipher.decrypt(b[:_NONCE], b[_NONCE:], _about(name, i, i == len(blocks) - 1))
                for i, b in enumerate(blocks)
            )
        except (InvalidTag, ValueError) as error:
            raise ConfigError(
                f"{name} should be opened with the key that it was encrypted with. Found another "
                "key, or a changed file. Name the key that the run began with."
            ) from error


def _about(name: str, number: int, last: bool) -> bytes:
    return f"{name}/{number}/{'last' if last else 'more'}".encode()


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The key of checkpoints should be in the file {path}. It cannot be read as text "
            f"({type(error).__name__}). {_HOW}"
        ) from error


def _decoded(text: str, source: str) -> bytes:
    """Return the bytes of a key; the message of an error does not show it."""
    try:
        # Both alphabets of base64: `openssl` writes one, `Fernet.generate_key` the other.
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError(
            f"The key of checkpoints should be {_KEY_BYTES} bytes in base64, which are 44 "
            f"characters. {source} holds something else. {_HOW}"
        )
    return key


def _ciphers() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError as error:
        raise ConfigError(
            "Checkpoints should be encrypted by the package `cryptography`. It cannot be "
            f"imported: {error}. Install it: pip install 'unstale[privacy]'."
        ) from error
    return aead
