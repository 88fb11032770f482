"""A mod for Flower's ClientApp that protects updates before they are sent.

It runs on the device, around the app's own training: it notes the weights that came, lets the
app train, and replaces the weights that go back by `base + protect(trained - base)`.

Flower has mods of its own. `LocalDpMod` clips and adds noise and works with Unstale as well; it
takes one ε for each reply, by a formula for ε below 1, and says nothing of many replies.
`fixedclipping_mod` needs Flower's strategy for differential privacy on the server, which cannot be
around Unstale. This mod has the settings of the simulator, sparsification among them, so that what
was measured there is what runs here, and `unstale.spent` says what all replies together cost.
"""

import secrets
from collections.abc import Callable, Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from torch import Tensor

from unstale.errors import ConfigError
from unstale.flower.messages import is_training
from unstale.privacy import Protection, protect
from unstale.seeding import generator

CallNext = Callable[[Message, Context], Message]


class ProtectMod:
    """Protects the update in every training reply of a ClientApp.

    If an update cannot be protected, the reply is an error and nothing of the update is sent. Put
    it first in the list of mods, so that it is the last to touch a reply.

    Args:
        protection: What is done to an update.
        metrics: If updates are differentially private, the metrics that are sent with them; others,
            such as the training loss, are removed, because ε does not cover them.

    Example:
        ```python
        app = ClientApp(mods=[ProtectMod(us.Protection(clip=1.0, noise_multiplier=0.5))])
        ```
    """

    def __init__(
        self, protection: Protection, *, metrics: tuple[str, ...] = ("num-examples",)
    ) -> None:
        if not isinstance(protection, Protection):
            raise ConfigError(
                f"ProtectMod: `protection` should be a `Protection`. Found {protection!r}."
            )
        self.protection = protection
        self.metrics = tuple(metrics)

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Let the app handle a message, and protect its reply if the message asks to train."""
        if not is_training(message) or not self.protection.enabled:
            return call_next(message, context)
        base = _only_arrays(message, "message")[1]
        # Before the app may change them in place.
        before = {name: array.numpy().copy() for name, array in base.items()}
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        key, trained = _only_arrays(reply, "reply")
        after = {name: array.numpy() for name, array in trained.items()}
        reply.content[key] = ArrayRecord(
            {name: Array(value) for name, value in self._protected(before, after).items()}
        )
        if self.protection.is_private:
            self._remove_metrics(reply)
        return reply

    def _protected(
        self, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the weights to send; arrays that are not of floats have to be as they came."""
        _check_alike(before, after)
        floats = [name for name, value in before.items() if np.issubdtype(value.dtype, np.floating)]
        start = {name: _tensor(before[name]) for name in floats}
        delta = {name: _tensor(after[name]) - start[name] for name in floats}
        # Nobody but this device may know the noise, so its seed is a secret that nobody keeps.
        sent = protect(delta, self.protection, generator(secrets.randbits(63), "protection"))
        made = {name: (start[name] + sent[name]).numpy() for name in floats}
        return {
            name: made[name].astype(v.dtype) if name in made else v for name, v in after.items()
        }

    def _remove_metrics(self, reply: Message) -> None:
        for key, record in list(reply.content.metric_records.items()):
            kept = {name: value for name, value in record.items() if name in self.metrics}
            reply.content[key] = MetricRecord(kept)


def _only_arrays(message: Message, what: str) -> tuple[str, ArrayRecord]:
    records = list(message.content.array_records.items())
    if len(records) != 1:
        raise ConfigError(
            f"ProtectMod: a training {what} should have one record of arrays, the weights. Found "
            f"{len(records)}. Nothing was sent."
        )
    return records[0]


def _check_alike(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> None:
    """Raise ConfigError unless a reply has the arrays of its message, and may leave the device."""
    for name in {*before} | {*after}:
        old, new = before.get(name), after.get(name)
        if old is None or new is None or (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ConfigError(
                "ProtectMod: a reply should have the arrays of the message that it answers, with "
                f"the same names, shapes and types. Found a difference in '{name}'. Nothing was "
                "sent."
            )
        if not np.issubdtype(old.dtype, np.floating) and not np.array_equal(old, new):
            raise ConfigError(
                f"ProtectMod: arrays that are not of floats should not change. Found '{name}', "
                f"{old.dtype}, changed; it cannot be protected. Nothing was sent."
            )


def _tensor(value: np.ndarray) -> Tensor:
    # In double precision, so that differences of float16 are not rounded twice.
    return torch.from_numpy(np.asarray(value, dtype=np.float64))
