r"""FedAT: the server keeps one model per tier of clients and averages these models.

When something of tier m arrives, the tier's model becomes the mean of their models, weighted by
examples. The global model is then the weighted mean of *all* tier models, also of those tiers
that have been silent:

$$ v_m = \sum_k \frac{n_k}{\sum_j n_j}\,(w_{b_k} + \Delta_k), \qquad
   w_{t+1} = \sum_{m=1}^{M} \frac{T_{M+1-m}}{T}\, v_m, $$

where $v_m$ is the model of tier m, $w_{b_k}$ are the weights that client k started from, $T_m$
is the number of rounds of tier m, in which something of it arrived, and T their sum over all
tiers. Tier 1 is the fastest: each tier has the number of its opposite, so that slow tiers are
not outweighed.

What is assumed where the publication leaves it open, or where the server works otherwise:

- A tier of which nothing has arrived yet holds the weights of when its first client was
  registered, usually the initial ones. With two tiers the fast one weighs 0 until something
  of the slow one has arrived, so the model does not move until then.
- What arrives of a tier in one round makes its model. Where the clients of a tier are equally
  late, these are the clients that were asked together, as in a synchronous round of the tier.
- If several tiers have something in one round, the mean is taken once, after all of them.
- The constraint on local training is a setting of the training (`LocalSpec.prox`), and
  messages are not compressed.

Where slow clients are τ rounds late and work on one model at a time, the slow tier's model
weighs about τ times as much as the fast one's, and it was trained from weights τ rounds old.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from unstale.methods.aggregate.tiering import (
    check_bounds,
    check_weighing,
    in_tiers,
    tier_weights,
)
from unstale.params import Params, add, flatten, subtract, weighted_mean
from unstale.updates import Aggregated, Note, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class FedAT:
    """Keeps a model per tier of clients and averages them, silent tiers included.

    All clients have to be registered (`Server.register`); the simulator and Flower do that.
    An update whose base weights are gone counts as if its client had started from the current
    ones. Memory: one model per tier.

    Example:
        >>> FedAT(bounds=(0, 20)).weighing
        'reversed'

    References:
        Chai et al., "FedAT: A High-Performance and Communication-Efficient Federated
        Learning System with Asynchronous Tiers", 2021.
    """

    makes_model: ClassVar[bool] = True

    bounds: tuple[int, ...] = (0,)
    """The largest latency of each tier but the last, in versions; `(0,)` gives two, fast and
    slow."""
    weighing: str = "reversed"
    """Weight of a tier's model: the number of rounds of the opposite tier (`reversed`, as
    published), or its number of clients (`clients`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", check_bounds("fedat", self.bounds))
        check_weighing("fedat", self.weighing)

    def init(self) -> State:
        """Return the state: no models yet, and each tier's number of rounds."""
        return {"models": {}, "rounds": [0] * (len(self.bounds) + 1)}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the step from the current weights to the mean of the tiers' models."""
        tiered = in_tiers("fedat", updates, view, self.bounds)
        rounds = list(state["rounds"])
        # Keys are text, as in a checkpoint. A tier begins with the weights of now.
        models: dict[str, Params] = {str(tier): dict(view.params) for tier in tiered.sizes}
        models |= state["models"]
        notes: list[Note] = []
        for tier, members in tiered.updates.items():
            found = _mean_model(members, view, notes)
            if bool(torch.isfinite(flatten(found)).all()):
                models[str(tier)] = found
                rounds[tier] += 1
            else:  # kept, it would spoil every later version
                reason = {"reason": f"the mean model of tier {tier} was not finite"}
                notes += [Note("dropped", u.client_id, u.base_version, reason) for u in members]
        after = {"models": models, "rounds": rounds}
        weights = tier_weights(self.weighing, tiered.sizes, rounds)
        if not tiered.updates or not sum(weights.values()):
            return Aggregated(None, after, tuple(notes))
        mean = weighted_mean([models[str(tier)] for tier in weights], list(weights.values()))
        return Aggregated(subtract(mean, view.params), after, tuple(notes))


def _mean_model(members: Sequence[Update], view: ServerView, notes: list[Note]) -> Params:
    """Return the mean of clients' models; note whose base weights are gone."""
    models = []
    for update in members:
        base = view.history(update.base_version)
        if base is None:
            detail = {"did": "keep", "reason": "the base weights are gone"}
            notes.append(Note("fallback", update.client_id, update.base_version, detail))
        models.append(add(view.params if base is None else base, update.delta))
    return weighted_mean(models, [update.num_examples * update.weight for update in members])
