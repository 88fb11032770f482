r"""Asynchronous tiers (FedAT): FedAvg within tiers of staleness, then a mean over tiers.

With the mean $\bar\Delta_m$ of this round's updates in tier m, the change is

$$ \Delta = \sum_m \frac{v_m}{\sum_k v_k}\, \bar\Delta_m $$

over the tiers with updates. The paper weights a tier by $v_m$ = the number of clients
seen in it. FedAT weights it by $v_m = T_{M+1-m}$, where $T_m$ is the number of rounds
in which tier m took part, so that tiers that report rarely are not outweighed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.methods.aggregate.mean import mean_delta
from unstale.params import weighted_mean
from unstale.updates import Aggregated, ServerView, State, Update

WEIGHINGS = ("clients", "reversed")


@dataclass(frozen=True, slots=True)
class Tiers:
    """FedAvg within tiers of staleness, then a weighted mean over tiers.

    Example:
        >>> Tiers(bounds=(0, 20)).tier(7)  # fast, up to 20 late, later
        1

    References:
        Chai et al., "FedAT: A High-Performance and Communication-Efficient Federated
        Learning System with Asynchronous Tiers", 2021; the paper's *Asyn-Tiers*.
    """

    bounds: tuple[int, ...] = (0,)
    """The largest staleness of each tier but the last; `(0,)` gives two, fresh and stale."""
    weighing: str = "clients"
    """Weight of a tier: its number of clients (`clients`, as in the paper), or the number of
    rounds of the opposite tier (`reversed`, as in FedAT)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", tuple(self.bounds))
        whole = all(type(bound) is int for bound in self.bounds)
        rising = whole and all(a < b for a, b in zip(self.bounds, self.bounds[1:], strict=False))
        if not self.bounds or not rising or self.bounds[0] < 0:
            raise ConfigError(
                "asyn_tiers: `bounds` should be rising integers of at least 0. "
                f"Found {self.bounds!r}."
            )
        if self.weighing not in WEIGHINGS:
            raise ConfigError(
                f"asyn_tiers: `weighing` should be one of {WEIGHINGS}. Found {self.weighing!r}."
            )

    def tier(self, staleness: int) -> int:
        """Return the tier of an update of this staleness; 0 is the fastest."""
        return sum(staleness > bound for bound in self.bounds)

    def init(self) -> State:
        """Return the state: each client's tier, and each tier's number of rounds."""
        return {"tier_of": {}, "rounds": [0] * (len(self.bounds) + 1)}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the weighted mean of the tiers' means."""
        tier_of, rounds = dict(state["tier_of"]), list(state["rounds"])
        members: dict[int, list[Update]] = {}
        for update in updates:
            tier = self.tier(update.staleness(view.version))
            tier_of[update.client_id] = tier
            members.setdefault(tier, []).append(update)
        for tier in members:
            rounds[tier] += 1

        means, weights = [], []
        for tier in sorted(members):
            mean = mean_delta(members[tier])
            if mean is not None:
                means.append(mean)
                # `clients` is at least 1, since this round's members are in `tier_of`. The
                # opposite tier may not have reported yet, so its rounds count as at least 1.
                clients = sum(t == tier for t in tier_of.values())
                reverse = max(rounds[len(rounds) - 1 - tier], 1)
                weights.append(float(clients if self.weighing == "clients" else reverse))
        delta = weighted_mean(means, weights) if means else None
        return Aggregated(delta, {"tier_of": tier_of, "rounds": rounds})
