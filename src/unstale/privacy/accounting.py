"""Differential privacy of a client's updates over a run: (ε, δ), by dp-accounting.

What is hidden is everything that one client holds, from everybody who sees its updates, the
server first. Two data sets of a client give updates that differ by at most 2C, where C is
`Protection.clip`. So one update is a Gaussian mechanism with noise multiplier σ / 2C, and k
updates are k of them, composed. Nothing is taken off for clients that a round did not draw
(amplification by sampling): the server sees who has answered, so there is nothing to hide it.
What the server computes from updates, conversions and stand-ins included, costs nothing more.

Rényi accounting is used: it gives an ε that holds, a little above the least one.
"""

import math
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.privacy.protection import Protection

ASSUMED = (
    "for all data of one client (replaced by any other), against whoever sees its updates; "
    "for the client that sent the most; no amplification by sampling; numbers of examples and "
    "the times of answers are not covered"
)
"""What (ε, δ) covers, in one sentence for tables and reports."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The privacy that a number of updates has cost their client."""

    updates: int
    """How many updates the client has sent."""
    epsilon: float
    """ε; 0 before the first update, infinite without clipping or noise."""
    delta: float
    """δ."""


def spent(protection: Protection, updates: int) -> Spent:
    """Return (ε, δ) of one client that has sent so many updates.

    Args:
        protection: What was done to each of them.
        updates: How many have left the device, refused ones included.

    Raises:
        ConfigError: If dp-accounting is not installed, or `updates` is negative.
    """
    if type(updates) is not int or updates < 0:
        raise ConfigError(f"`updates` should be a whole number of at least 0. Found {updates!r}.")
    if not updates:
        return Spent(0, 0.0, protection.delta)
    if not protection.is_private or protection.clip is None:
        return Spent(updates, math.inf, protection.delta)
    require_accountant()
    import dp_accounting
    from dp_accounting import rdp

    mechanism = dp_accounting.GaussianDpEvent(protection.noise_std / (2 * protection.clip))
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.SelfComposedDpEvent(mechanism, updates))
    return Spent(updates, float(accountant.get_epsilon(protection.delta)), protection.delta)


def require_accountant() -> None:
    """Raise ConfigError unless dp-accounting is installed."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "Differential privacy (`clip` with noise) should be accounted for by dp-accounting. "
            f"It cannot be imported: {error}. Install it: pip install 'unstale[privacy]'."
        ) from error
