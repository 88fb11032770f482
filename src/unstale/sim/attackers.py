"""Attackers: clients that send something else than what they have trained.

An attacker trains like everybody else; what it sends is made from that by one of the functions
here. It claims its true number of examples and base version, and it sends whenever it is asked,
so that nothing but the update itself tells it from an honest client.

Attackers are drawn from the fast clients: the affected classes stay with honest clients, and
their accuracy says what a defence costs. A list of clients may name any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from unstale.errors import ConfigError
from unstale.params import Params, flatten, norm, scale
from unstale.seeding import generator, numpy_generator


def scaled(delta: Params, factor: float) -> Params:
    """Return an update of the same direction, `factor` times as long."""
    return scale(delta, factor)


def sign_flipped(delta: Params, factor: float) -> Params:
    """Return the opposite of an update, `factor` times as long."""
    return scale(delta, -factor)


def random_of_norm(delta: Params, factor: float, rng: torch.Generator) -> Params:
    """Return Gaussian noise that is `factor` times as long as an update.

    Example:
        >>> found = random_of_norm({"w": torch.ones(4)}, 3.0, torch.Generator().manual_seed(0))
        >>> round(norm(found), 5)
        6.0
    """
    noise = {
        name: torch.randn(p.shape, generator=rng, dtype=torch.float64) for name, p in delta.items()
    }
    length = float(flatten(noise).norm())
    by = factor * norm(delta) / length if length else 0.0
    return {name: (by * noise[name]).to(p.device, p.dtype) for name, p in delta.items()}


class Attack(Protocol):
    """What attackers send, and who is one."""

    @property
    def remembers(self) -> bool:
        """Whether `send` needs the first update that the client trained."""
        ...

    def draw(self, clients: int, fast: Sequence[int], seed: int) -> frozenset[int]:
        """Return the attackers among the clients 0 … clients − 1."""
        ...

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return what an attacker sends.

        Args:
            delta: What it has trained now.
            first: What it trained first; `delta` itself the first time.
            rng: The source of randomness.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoAttackers:
    """All clients are honest."""

    @property
    def remembers(self) -> bool:
        """Nothing is remembered."""
        return False

    def draw(self, clients: int, fast: Sequence[int], seed: int) -> frozenset[int]:
        """Return nobody."""
        return frozenset()

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return the update as it is."""
        return delta


@dataclass(frozen=True, slots=True)
class _Attackers:
    """Who attacks, and how strongly."""

    share: float = 0.1
    """The number of attackers as a share of all clients, rounded; they are drawn from the fast
    clients."""
    clients: tuple[int, ...] = ()
    """The attackers, by number; if given, `share` is not used."""
    factor: float = 1.0
    """The length of what is sent, as a multiple of the update that it is made from."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"`share` should be from 0 to 1. Found {self.share!r}.")
        if not self.factor > 0:
            raise ConfigError(
                f"`factor` should be a number above 0. Found {self.factor!r}. For updates of the "
                'opposite direction there is kind = "sign_flipped".'
            )
        if len(set(self.clients)) < len(self.clients) or any(c < 0 for c in self.clients):
            raise ConfigError(
                "`clients` should be different whole numbers of at least 0. "
                f"Found {list(self.clients)!r}."
            )

    @property
    def remembers(self) -> bool:
        """Whether the first update is needed; only for replays."""
        return False

    def draw(self, clients: int, fast: Sequence[int], seed: int) -> frozenset[int]:
        """Return the attackers, the same for every kind of attack and every method.

        Raises:
            ConfigError: If there are fewer (fast) clients.
        """
        if self.clients:
            if beyond := [client for client in self.clients if client >= clients]:
                raise ConfigError(
                    f"[attackers] `clients` should be from 0 to {clients - 1}. Found {beyond}."
                )
            return frozenset(self.clients)
        wanted = round(self.share * clients)
        if wanted > len(fast):
            raise ConfigError(
                f"[attackers] `share` should leave slow clients honest: there are {len(fast)} fast "
                f"clients. Found {self.share} of {clients}, which is {wanted}. Lower it, or list "
                "`clients`."
            )
        rng = numpy_generator(seed, "attackers")
        return frozenset(int(c) for c in rng.choice(sorted(fast), wanted, replace=False))


@dataclass(frozen=True, slots=True)
class Scaled(_Attackers):
    """Attackers send their own update, made longer, so that it outweighs all others."""

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return the update, `factor` times as long."""
        return scaled(delta, self.factor)


@dataclass(frozen=True, slots=True)
class SignFlipped(_Attackers):
    """Attackers send the opposite of their own update, so that the model unlearns."""

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return the opposite of the update, `factor` times as long."""
        return sign_flipped(delta, self.factor)


@dataclass(frozen=True, slots=True)
class Random(_Attackers):
    """Attackers send Gaussian noise of the norm of their own update."""

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return noise, `factor` times as long as the update."""
        return random_of_norm(delta, self.factor, rng)


@dataclass(frozen=True, slots=True)
class Replayed(_Attackers):
    """Attackers send the first update that they trained, again and again, as if it were new.

    The server cannot know how old it is: it comes with the version that the client was asked
    to work on.
    """

    @property
    def remembers(self) -> bool:
        """The first update is what is sent."""
        return True

    def send(self, delta: Params, first: Params, rng: torch.Generator) -> Params:
        """Return the first update, `factor` times as long."""
        return scaled(first, self.factor)


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """Who attacks in one scenario, and how."""

    attack: Attack
    """What attackers send."""
    attackers: frozenset[int]
    """The attackers, by number."""
    seed: int
    """Seed of the draws."""

    def sent(self, client: int, round: int, delta: Params, first: Params | None) -> Params:
        """Return what a client sends that was asked in a round; honest ones, what they trained."""
        if client not in self.attackers:
            return delta
        rng = generator(self.seed, "attack", client, round)
        return self.attack.send(delta, delta if first is None else first, rng)


KINDS: dict[str, type[Attack]] = {
    "none": NoAttackers,
    "scaled": Scaled,
    "sign_flipped": SignFlipped,
    "random": Random,
    "replayed": Replayed,
}
"""Attackers by their `kind` in experiment files."""
