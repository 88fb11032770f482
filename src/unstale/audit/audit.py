"""`audit_privacy`: what a server can see of its clients' data, with and without conversion."""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from unstale.audit.attacks.conversion import converted_surrogates
from unstale.audit.attacks.gradient_matching import Matching
from unstale.audit.attacks.last_layer import (
    label_counts,
    label_overlap,
    labels_of_counts,
    last_layer,
    step_size,
)
from unstale.audit.attacks.surrogate_extension import extend_surrogates
from unstale.audit.baselines import baselines, split_held_out
from unstale.audit.federation import sent_updates, versions_of
from unstale.audit.metrics.lpips import Lpips
from unstale.audit.metrics.quality import Judge, Quality, mean_quality
from unstale.audit.metrics.recognition import trained_classifier
from unstale.audit.pictures import Strip, strips_of
from unstale.audit.result import FIRST, LAST, OTHER, UPDATE, Labels, PrivacyAudit, Size
from unstale.check.trial import Client
from unstale.errors import ConfigError
from unstale.inversion import InputSpec, Inversion, Surrogate
from unstale.inversion.hard_labels import whole_counts
from unstale.inversion.request import Sent
from unstale.inversion.surrogate import grey
from unstale.inversion.target import Target, target_of
from unstale.params import Params, params_of
from unstale.privacy import Protection
from unstale.seeding import derive, generator
from unstale.training.local import LocalSpec
from unstale.training.token_models import TokenModel, surrogate_names

# (steps done, steps in all)
Progress = Callable[[int, int], None]
# Held-out samples that an original is looked for among, and that baselines are drawn from.
MAX_HELD_OUT = 2000
_PROBES = 64


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What an audit tries."""

    sizes: tuple[int | None, ...] = (1, 4, 16, None)
    """The samples that an attacked client holds; None for all of its own."""
    updates: int = 5
    """How many updates of a client are converted, one after the other."""
    begin: int = 10
    """The version that its first update is trained from."""
    every: int = 5
    """The number of versions between two of them."""
    matching: Matching = field(default_factory=Matching)
    """The search of the surrogate model extension."""
    max_images: int = 64
    """The most inputs that it looks for."""
    seed: int = 0
    """Seeds everything."""

    def __post_init__(self) -> None:
        for size in self.sizes:
            if size is not None and (type(size) is not int or size < 1):
                raise ConfigError(
                    f"audit: `sizes` should be positive integers or None. Found {size!r}."
                )
        if not self.sizes:
            raise ConfigError("audit: `sizes` should name at least one. Found none.")
        for name, least in (("updates", 1), ("every", 1), ("begin", 0), ("max_images", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise ConfigError(
                    f"audit: `{name}` should be an integer of at least {least}. "
                    f"Found {getattr(self, name)!r}."
                )

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that updates are trained from."""
        return tuple(self.begin + i * self.every for i in range(self.updates))


def audit_privacy(
    model: nn.Module,
    *,
    local: LocalSpec,
    inputs: InputSpec,
    clients: Sequence[Client],
    attacked: Sequence[int],
    known: Client,
    held_out: Client,
    plan: AuditPlan | None = None,
    inversion: Inversion | None = None,
    protection: Protection | None = None,
    lpips: Lpips | None = None,
    title: str = "",
    class_names: Sequence[str] = (),
    progress: Progress | None = None,
) -> PrivacyAudit:
    """Attack the updates of some clients, and measure what comes out beside baselines.

    Args:
        model: The model that clients train, with its initial weights; it is not changed.
        local: The recipe that clients run.
        inputs: What one input looks like, with bounds.
        clients: The data of all clients, on the device to compute on.
        attacked: Those whose data is looked for, by index.
        known: Samples that the attacked clients do not hold; with half of `held_out` they train
            the classifier.
        held_out: Samples that nobody holds, for baselines and for candidates.
        plan: What to try.
        inversion: How `convert` fits surrogates.
        protection: What attacked clients do to an update before they send it.
        lpips: The perceptual distance, if its weights are at hand.
        title: What is audited.
        class_names: The names of classes.
        progress: Called after each size with how many are done, and how many there are.

    Raises:
        ConfigError: If inputs have no bounds or are tokens, or nobody is attacked.
    """
    began = time.perf_counter()
    plan, inversion = plan or AuditPlan(), inversion or Inversion()
    _check(model, inputs, clients, attacked)
    victims = [clients[i] for i in attacked]
    sizes = _sizes(plan.sizes, victims)
    model = copy.deepcopy(model).to(clients[0].x.device)
    start = params_of(model)
    versions = versions_of(model, clients, plan.versions, local=local, start=start, seed=plan.seed)
    references, candidates = split_held_out(
        held_out.x[:MAX_HELD_OUT], held_out.y[:MAX_HELD_OUT], plan.seed
    )
    # With the candidates, too: where attacked clients hold a class, few others may have it.
    lessons = (torch.cat(pair) for pair in zip((known.x, known.y), candidates, strict=True))
    judge = Judge(inputs, candidates, trained_classifier(model, *lessons, seed=plan.seed), lpips)
    protection = protection or Protection()
    scene = _Scene(model, local, inputs, inversion, protection, plan, judge, references, versions)
    found = []
    for done, size in enumerate(sizes):
        found.append(scene.audited(_cut(victims, size, plan.seed), size))
        if progress is not None:
            progress(done + 1, len(sizes))
    return PrivacyAudit(
        sizes=tuple(found),
        attacked=len(victims),
        clients=len(clients),
        updates=plan.updates,
        steps=local.num_steps(sizes[-1]),
        protection=protection,
        device=str(clients[0].x.device),
        seconds=time.perf_counter() - began,
        title=title,
        classes=len(class_names) or inputs.classes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    """All that stays the same over client sizes."""

    model: nn.Module
    local: LocalSpec
    inputs: InputSpec
    inversion: Inversion
    protection: Protection
    plan: AuditPlan
    judge: Judge
    references: tuple[Tensor, Tensor]
    versions: Sequence[Params]

    def audited(self, victims: Sequence[Client], size: int) -> Size:
        """Return every measure of every attack on clients of one size."""
        sent = [
            sent_updates(
                self.model, self.versions, c.x, c.y, local=self.local,
                protection=self.protection, seed=derive(self.plan.seed, "victim", i),
            )
            for i, c in enumerate(victims)
        ]  # fmt: skip
        surrogates = converted_surrogates(
            self.model, sent, [len(c.x) for c in victims], local=self.local,
            inputs=self.inputs, settings=self.inversion, seed=self.plan.seed,
        )  # fmt: skip
        last = [own.last for own in surrogates]
        guesses = [
            self._guessed(own[-1], len(c.x), kept)
            for own, c, kept in zip(sent, victims, last, strict=True)
        ]
        extended = self._extended(sent, guesses, size)
        qualities: dict[str, list[Quality]] = {}
        shown: list[Strip] = []
        for i, (c, own) in enumerate(zip(victims, surrogates, strict=True)):
            sets = dict(self._sets(i, c, own.first, last, extended[i]))
            for name, x in sets.items():
                qualities.setdefault(name, []).append(self.judge.measure(x, c.x, c.y))
            if i == 0:
                shown = strips_of(sets, c.x, c.y, self.inputs)
        return Size(
            samples=size,
            surrogate=max((len(s) for s in last if s is not None), default=0),
            rows={name: mean_quality(rows) for name, rows in qualities.items()},
            labels=self._labels(victims, last, guesses),
            failed=sum(s is None for s in last),
            strips=tuple(shown),
        )

    def _sets(
        self,
        i: int,
        client: Client,
        first: Surrogate | None,
        last: Sequence[Surrogate | None],
        extended: Tensor,
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield every set of inputs that is measured against one client's samples."""
        kept = last[i]
        if first is not None:
            yield FIRST, first.x
        if kept is not None:
            yield LAST, kept.x
        yield UPDATE, extended
        count = len(extended) if kept is None else len(kept)
        yield from baselines(
            count, client.y, self.references, inputs=self.inputs,
            seed=derive(self.plan.seed, "victim", i),
        ).items()  # fmt: skip
        others = [s for j, s in enumerate(last) if j != i and s is not None]
        if others:
            yield OTHER, others[i % len(others)].x

    def _guessed(self, sent: Sent, count: int, surrogate: Surrogate | None) -> Tensor | None:
        """Return the class counts that the last layer tells; None where it tells nothing."""
        classes = self.inputs.classes
        if last_layer(self.model, classes) is None or step_size(self.local, count) is None:
            return None
        base, delta = sent
        like = next(iter(base.values()))
        if surrogate is None:
            rng = generator(self.plan.seed, "audit", "probes")
            surrogate = grey(self.inputs, _PROBES, 0.25, rng)
        return label_counts(
            self.model, base, delta, local=self.local, num_examples=count, classes=classes,
            probes=surrogate.x.to(like),
        )  # fmt: skip

    def _extended(
        self, sent: Sequence[Sequence[Sent]], guesses: Sequence[Tensor | None], size: int
    ) -> list[Tensor]:
        """Return what the surrogate model extension finds in each client's last update."""
        names, images = surrogate_names(self.model), min(size, self.plan.max_images)
        targets: list[Target] = []
        labels = []
        for own, guess in zip(sent, guesses, strict=True):
            target = target_of(*own[-1], names, self.protection.sparsity)
            targets.append(target)
            even = torch.ones(self.inputs.classes, device=target.delta.device)
            labels.append(labels_of_counts(even if guess is None else guess, images))
        found = extend_surrogates(
            self.model, targets, torch.stack(labels), inputs=self.inputs,
            settings=self.plan.matching, loss=self.local.loss, seed=self.plan.seed,
        )  # fmt: skip
        return list(found.x.unbind(0))

    def _labels(
        self,
        victims: Sequence[Client],
        last: Sequence[Surrogate | None],
        guesses: Sequence[Tensor | None],
    ) -> Labels:
        """Return which share of labels each way tells."""
        classes = self.inputs.classes
        learned, analytic, even = [], [], []
        for client, kept, guess in zip(victims, last, guesses, strict=True):
            truth = torch.bincount(client.y, minlength=classes)
            shares = torch.full((classes,), 1 / classes)
            even.append(label_overlap(shares * len(client.y), truth))
            if kept is not None:
                counts = whole_counts(kept.labels.mean(0), len(client.y))
                learned.append(label_overlap(counts, truth))
            if guess is not None:
                analytic.append(label_overlap(guess, truth))
        return Labels(*(_mean(values) for values in (learned, analytic, even)))


def _check(
    model: nn.Module, inputs: InputSpec, clients: Sequence[Client], attacked: Sequence[int]
) -> None:
    if isinstance(model, TokenModel):
        raise ConfigError(
            "audit: Inputs should be images, signals or features. Found a model of token ids, "
            "whose surrogates are vectors; what they tell of words is not measured yet."
        )
    if inputs.low is None or inputs.high is None:
        raise ConfigError(
            "audit: `inputs` should have both bounds, `low` and `high`. "
            f"Found {inputs.low} and {inputs.high}. Scale the data by known constants."
        )
    if not attacked or not set(attacked) <= set(range(len(clients))):
        raise ConfigError(
            f"audit: `attacked` should name clients from 0 to {len(clients) - 1}, at least one. "
            f"Found {list(attacked)}."
        )


def _sizes(wanted: Sequence[int | None], victims: Sequence[Client]) -> list[int]:
    """Return the sizes that all attacked clients have, the smallest first."""
    most = min(len(c.x) for c in victims)
    sizes = sorted({most if size is None else size for size in wanted})
    if sizes[-1] > most:
        raise ConfigError(
            f"audit: `sizes` should be at most {most}, the samples of the smallest attacked "
            f"client. Found {sizes[-1]}. Leave it out, or use `all`."
        )
    return sizes


def _cut(victims: Sequence[Client], size: int, seed: int) -> list[Client]:
    """Return the clients with so many of their samples, drawn at random."""
    found = []
    for i, c in enumerate(victims):
        order = torch.randperm(len(c.x), generator=generator(seed, "audit", "samples", i))
        chosen = order[:size].to(c.x.device)
        found.append(Client(c.x[chosen], c.y[chosen]))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
