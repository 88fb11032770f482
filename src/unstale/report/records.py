"""What a run folder holds, as frozen records: the only thing charts and tables see.

Rounds and surrogates are the run folder's own classes (`unstale.run_folder`), read by the
schema that wrote them; the rest of a folder is read into the records here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unstale.report.nodes import NodeHistory, histories
from unstale.run_folder import Round as Round
from unstale.run_folder import SurrogateSamples
from unstale.run_folder.best import NO_DELAY
from unstale.run_folder.optimizer_words import optimizer_in_words
from unstale.run_folder.protection_words import protection_in_words
from unstale.run_folder.time_to_target import WINDOW
from unstale.run_folder.tuning import TuningRecord

if TYPE_CHECKING:
    from unstale.report.missing import Missing


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the run, as the config lists it."""

    label: str
    """The name it goes by in this run; also its folder's name under `rounds/`."""
    name: str
    """The registered name; several labels may share it with other settings."""

    @property
    def is_oracle(self) -> bool:
        """Whether this is the method that knows no delay, the ceiling of all others."""
        return self.name == NO_DELAY


@dataclass(frozen=True, slots=True)
class Client:
    """A simulated client: what it holds and how late it is."""

    id: str
    """Its name; foreign text."""
    histogram: tuple[int, ...]
    """Its examples by class."""
    latency: float
    """How many rounds its updates take."""
    slow: bool
    """Whether the scenario made it slow."""

    @property
    def examples(self) -> int:
        """How many examples it holds."""
        return sum(self.histogram)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`scenario/seed-<n>.json`: who holds what under one seed."""

    seed: int
    """The seed it was drawn from."""
    classes: tuple[str, ...]
    """Names of the classes; foreign text."""
    affected: tuple[int, ...]
    """Positions of the classes whose data sits on slow clients."""
    clients: tuple[Client, ...]
    """All clients, in the file's order."""
    test_set: str = ""
    """What accuracy is measured on, where the data has two looks; foreign text."""


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """The numbers of one method over all seeds."""

    values: Mapping[str, float | None]
    """Mean over seeds by metric."""
    spread: Mapping[str, float | None] = field(default_factory=dict)
    """Standard deviation over seeds by metric; None or absent with a single seed."""
    seeds: int = 0
    """How many seeds there are."""
    knows_time: bool = True
    """Whether it says from when the target is held; summaries of format 1 do not."""


# Rounds in order, by method label and seed.
RoundsOf = Mapping[str, Mapping[int, tuple[Round, ...]]]
# Some clients' surrogates, by method label and seed.
SurrogatesOf = Mapping[str, Mapping[int, tuple[SurrogateSamples, ...]]]


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run folder, read."""

    config: Mapping[str, Any]
    """The resolved config."""
    environment: Mapping[str, Any]
    """Versions, device, commit and the command."""
    methods: tuple[Method, ...]
    """In the config's order; then any that only the folder knows."""
    seeds: tuple[int, ...]
    """The seeds the config asks for, then any that only the folder knows."""
    planned_rounds: int
    """How many rounds the config asks for; 0 where it does not say."""
    rounds: RoundsOf
    """What was recorded; methods and seeds that have not begun are absent."""
    scenarios: Mapping[int, Scenario]
    """By seed; those that were written."""
    summary: Mapping[str, MethodSummary] | None
    """By label; None while the run is unfinished."""
    target: float | None
    """The affected-class accuracy to hold; None where the run has none."""
    seconds: Mapping[str, float]
    """Wall time by label, where recorded."""
    surrogates: SurrogatesOf = field(default_factory=dict)
    """What some surrogates looked like in the end; absent for methods that make none."""
    window: int = WINDOW
    """How many rounds the accuracy is smoothed over to see whether it holds the target."""
    reference: str | None = None
    """The label of the method that rounds saved are compared with; None where there is none."""
    tuning: TuningRecord | None = None
    """What tuning tried and chose; None where settings are those of the config."""
    privacy: Mapping[str, Any] = field(default_factory=dict)
    """The part `privacy` of the summary; empty where clients protect nothing, or before the end."""

    missing: tuple["Missing", ...] = ()
    """Rounds that its summary is of and that are not there; the summary is used only if none is."""

    @property
    def finished(self) -> bool:
        """Whether the run wrote its summary, which it does last."""
        return self.summary is not None

    @property
    def protection(self) -> str:
        """What clients did to their updates before they sent them, in words; empty for nothing."""
        settings = self.config.get("protection")
        return protection_in_words(settings) if isinstance(settings, dict) else ""

    @property
    def optimizer(self) -> str:
        """The server optimizer and its settings, in words; empty for the plain one."""
        table = self.config.get("optimizer")
        return optimizer_in_words(table) if isinstance(table, dict) else ""

    @property
    def converts(self) -> bool:
        """Whether any update was converted, so that there were surrogates."""
        every = (
            r for by_seed in self.rounds.values() for rounds in by_seed.values() for r in rounds
        )
        return any(r.conversions for r in every)

    @property
    def scenario(self) -> Scenario | None:
        """The scenario of the first seed that has one."""
        return next(iter(self.scenarios.values()), None)

    @property
    def nodes(self) -> list[NodeHistory]:
        """Every node of a run on real clients, the latest first; none in a simulation."""
        every = (
            r for by_seed in self.rounds.values() for rounds in by_seed.values() for r in rounds
        )
        return histories(record.nodes for record in every if record.nodes is not None)

    @property
    def knows_affected(self) -> bool:
        """Whether the accuracy in affected classes is measured, as in every simulation.

        On real clients it is only where the app does so.
        """
        every = [
            r for by_seed in self.rounds.values() for rounds in by_seed.values() for r in rounds
        ]
        return any(r.affected_accuracy is not None for r in every) or not any(
            r.accuracy is not None or r.nodes is not None for r in every
        )

    @property
    def affected(self) -> set[int]:
        """Positions of the classes that are affected under any seed, or by the config's word."""
        if self.scenarios:
            return {c for scenario in self.scenarios.values() for c in scenario.affected}
        evaluate = self.config.get("evaluate")
        told = evaluate.get("affected") if isinstance(evaluate, dict) else None
        return {c for c in told if isinstance(c, int)} if isinstance(told, list) else set()

    def class_name(self, position: int) -> str:
        """Return the name of a class; its position where the run does not tell; foreign text."""
        told = self.scenario.classes if self.scenario else self.config.get("classes")
        known = told if isinstance(told, list | tuple) else ()
        return str(known[position]) if position < len(known) else str(position)

    @property
    def title(self) -> str:
        """The config's title, or its name, or a plain word."""
        return str(self.config.get("title") or self.config.get("name") or "Run")

    def reached(self, label: str) -> int:
        """The highest round that any seed of a method reached; 0 before the first."""
        by_seed = self.rounds.get(label, {})
        return max((rounds[-1].number for rounds in by_seed.values() if rounds), default=0)

    def counted(self, label: str) -> Mapping[int, tuple[Round, ...]]:
        """The seeds of a method whose numbers may be averaged: those that got furthest.

        While a run goes on, a seed that has only begun would pull the mean down and make
        the method look bad for being late.
        """
        furthest = self.reached(label)
        by_seed = self.rounds.get(label, {})
        return {
            seed: rounds
            for seed, rounds in by_seed.items()
            if rounds and rounds[-1].number == furthest
        }

    def is_through(self, method: Method) -> bool:
        """Whether at least one seed of the method went through all rounds."""
        reached = self.reached(method.label)
        return reached > 0 and reached >= self.last_round

    @property
    def last_round(self) -> int:
        """The highest round that anything reached, or was to reach."""
        return max([self.planned_rounds, *map(self.reached, self.rounds)])
