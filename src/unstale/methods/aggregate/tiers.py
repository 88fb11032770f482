r"""Asyn-Tiers: FedAvg within tiers of clients, then a weighted mean of the tiers' updates.

This is how the paper uses FedAT. With the mean $\bar\Delta_m$ of this round's updates of
tier m and the number $N_m$ of clients in it, the change of the weights is

$$ \Delta = \sum_m \frac{N_m}{\sum_k N_k}\, \bar\Delta_m. $$

The paper has two sentences on it: clients are put into (two) tiers by staleness, each of
which does synchronous FedAvg, and updates of different tiers are weighted by the numbers of
clients in the tiers. Left open is what happens in a round in which nothing of a tier has
arrived, so that is a setting, `silent`: by default the sums are over the tiers with updates.
FedAT itself, which averages models, is `fedat`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.methods.aggregate.mean import mean_delta
from unstale.methods.aggregate.tiering import (
    check_bounds,
    check_weighing,
    in_tiers,
    tier_of,
    tier_weights,
)
from unstale.params import scale, weighted_mean
from unstale.updates import Aggregated, ServerView, State, Update

SILENT = ("left_out", "counted")


@dataclass(frozen=True, slots=True)
class Tiers:
    """FedAvg within tiers of clients, then a weighted mean of the tiers' updates.

    All clients have to be registered (`Server.register`); the simulator and Flower do that.

    Example:
        >>> Tiers(bounds=(0, 20)).tier(7)  # fast, up to 20 late, later
        1

    References:
        The paper's *Asyn-Tiers*, after Chai et al., "FedAT: A High-Performance and
        Communication-Efficient Federated Learning System with Asynchronous Tiers", 2021.
    """

    bounds: tuple[int, ...] = (0,)
    """The largest latency of each tier but the last, in versions; `(0,)` gives two, fast and
    slow."""
    weighing: str = "clients"
    """Weight of a tier: its number of clients (`clients`, as in the paper), or the number of
    rounds of the opposite tier, at least 1 (`reversed`, the weights of FedAT)."""
    silent: str = "left_out"
    """A tier without updates in a round: `left_out` of the mean, so that the others weigh more,
    or `counted` as if its update were zero, so that each tier always has the same weight."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", check_bounds("asyn_tiers", self.bounds))
        check_weighing("asyn_tiers", self.weighing)
        if self.silent not in SILENT:
            raise ConfigError(
                f"asyn_tiers: `silent` should be one of {SILENT}. Found {self.silent!r}."
            )

    def tier(self, latency: float) -> int:
        """Return the tier of a client of this latency; 0 is the fastest."""
        return tier_of(latency, self.bounds)

    def init(self) -> State:
        """Return the state: each tier's number of rounds."""
        return {"rounds": [0] * (len(self.bounds) + 1)}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the weighted mean of the tiers' means."""
        tiered = in_tiers("asyn_tiers", updates, view, self.bounds)
        rounds = [count + (m in tiered.updates) for m, count in enumerate(state["rounds"])]
        after = {"rounds": rounds}
        # The opposite tier may have had no round yet; a weight of 0 would throw an update away.
        least_one = [max(count, 1) for count in rounds]
        weights = tier_weights(self.weighing, tiered.sizes, least_one)
        means = {m: mean_delta(members) for m, members in tiered.updates.items()}
        found = {m: mean for m, mean in means.items() if mean is not None}
        if not found:
            return Aggregated(None, after)
        present = [weights[m] for m in found]
        delta = weighted_mean(list(found.values()), present)
        if self.silent == "counted" and len(found) < len(weights):
            delta = scale(delta, sum(present) / sum(weights.values()))
        return Aggregated(delta, after)
