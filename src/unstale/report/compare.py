"""Several run folders as one: their methods side by side, and where their scenarios differ.

Methods are told apart by folder only where that is needed: a label that occurs in one folder
keeps its name, and so does one whose accuracies are the same in every folder, to the last bit.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unstale.report.context import Context, Figures
from unstale.report.figures.classes import class_accuracy
from unstale.report.figures.lines import accuracy_chart, overall_chart
from unstale.report.palette import assign_styles
from unstale.report.records import Method, MethodSummary, Round, Run
from unstale.report.summarise import Summary, summarise
from unstale.run_folder.differences import differences

# Settings that do not change what methods are up against. The server optimizer is part of how
# the server answers to the scenario, as the method is.
NO_SCENARIO = frozenset(
    (
        "name",
        "title",
        "description",
        "methods",
        "optimizer",
        "seeds",
        "threads",
        "oracle",
        "storage",
        "history",
    )
)
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting of the scenario that is not the same in all runs."""

    key: str
    """Its dotted name, as in an experiment file."""
    values: tuple[str, ...]
    """What each run has, in their order; foreign text."""


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Several runs and what they are as one."""

    names: tuple[str, ...]
    """What each run goes by: the name of its folder, or more of its path where two are alike."""
    runs: tuple[Run, ...]
    """The runs themselves."""
    differing: tuple[Difference, ...]
    """Where their scenarios differ; empty if all methods were up against the same."""
    context: Context
    """All methods as if of one run, with the figures and numbers that may stand side by side."""
    shared: tuple[str, ...]
    """Labels that several folders have with the same accuracies, and that are shown once."""

    @property
    def same(self) -> bool:
        """Whether all runs are of the same scenario."""
        return not self.differing

    @property
    def same_seeds(self) -> bool:
        """Whether all runs have the same seeds."""
        return len({frozenset(run.seeds) for run in self.runs}) == 1


def compare(folders: Sequence[Path], runs: Sequence[Run]) -> ComparedRuns:
    """Put runs side by side.

    Args:
        folders: Where they lie; gives their names.
        runs: The runs, in the same order.
    """
    names = short_names(folders)
    differing = scenario_differences(runs)
    labels, shared = _labels(names, runs)
    same = not differing
    first = runs[0]
    summaries = [summarise(run) for run in runs]
    found: dict[str, MethodSummary] = {}
    methods: dict[str, Method] = {}
    rounds: dict[str, Mapping[int, tuple[Round, ...]]] = {}
    seconds: dict[str, float] = {}
    for run, summary, of_run in zip(runs, summaries, labels, strict=True):
        for method in run.methods:
            label = of_run[method.label]
            if label in methods:
                continue
            methods[label] = Method(label, method.name)
            if method.label in run.rounds:
                rounds[label] = run.rounds[method.label]
            if method.label in run.seconds:
                seconds[label] = run.seconds[method.label]
            if method.label in summary.methods:
                found[label] = _without_savings(summary.methods[method.label])
    provisional = any(summary.provisional for summary in summaries)
    targets = {run.target for run in runs}
    windows = {run.window for run in runs}
    whole = Run(
        config={"evaluate": first.config.get("evaluate")} if same else {},
        environment={},
        methods=tuple(methods.values()),
        seeds=tuple(dict.fromkeys(seed for run in runs for seed in run.seeds)),
        planned_rounds=max(run.planned_rounds for run in runs),
        rounds=rounds,
        scenarios={s: one for run in runs for s, one in run.scenarios.items()} if same else {},
        summary=None if provisional else found,
        target=targets.pop() if len(targets) == 1 else None,
        seconds=seconds,
        window=windows.pop() if len(windows) == 1 else 1,
    )
    figures = Figures(
        accuracy=accuracy_chart(whole),
        overall=overall_chart(whole),
        classes=class_accuracy(whole) if same else None,
    )
    context = Context(whole, Summary(found, provisional), assign_styles(whole.methods), figures)
    return ComparedRuns(tuple(names), tuple(runs), tuple(differing), context, tuple(shared))


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder: as few of its last parts as tell them apart.

    Example:
        >>> short_names([Path("runs/a"), Path("runs/b")])
        ['a', 'b']
        >>> short_names([Path("old/a"), Path("new/a")])
        ['old/a', 'new/a']
    """
    parts = [folder.absolute().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(of[-depth:]) for of in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} #{i}" for i, name in enumerate(names, start=1)]


def scenario_differences(runs: Sequence[Run]) -> list[Difference]:
    """Return where the scenarios of runs differ: in settings, or in who holds what."""
    configs = [{k: v for k, v in run.config.items() if k not in NO_SCENARIO} for run in runs]
    keys = dict.fromkeys(k for other in configs[1:] for k in differences(configs[0], other))
    found = [Difference(key, tuple(_value(config, key) for config in configs)) for key in keys]
    first = runs[0].scenarios
    for run in runs[1:]:
        differ = [s for s, one in run.scenarios.items() if s in first and one != first[s]]
        if differ and not found:
            told = tuple("–" if s not in r.scenarios else "drawn otherwise" for r in runs
                         for s in differ[:1])  # fmt: skip
            found.append(Difference(f"clients of seed {differ[0]}", told))
    return found


def _value(config: Mapping[str, Any], key: str) -> str:
    value: Any = config
    for part in key.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    told = "–" if value is None else text
    return told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…"


def _labels(names: Sequence[str], runs: Sequence[Run]) -> tuple[list[dict[str, str]], list[str]]:
    """Return the new label of each run's methods, and those that several runs share."""
    owners: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        for method in run.methods:
            owners.setdefault(method.label, []).append(i)
    renamed: list[dict[str, str]] = [{} for _ in runs]
    shared = []
    for label, of in owners.items():
        alike: list[list[int]] = []
        for i in of:
            group = next((g for g in alike if _equal(runs[g[0]], runs[i], label)), None)
            if group is None:
                alike.append([i])
            else:
                group.append(i)
        for group in alike:
            inside = ", ".join(names[i] for i in group)
            new = label if len(alike) == 1 else f"{label} ({inside})"
            for i in group:
                renamed[i][label] = new
            if len(group) > 1:
                shared.append(new)
    return renamed, shared


def _equal(one: Run, other: Run, label: str) -> bool:
    """Return whether two runs found the very same accuracies with a method."""
    kinds = {m.name for run in (one, other) for m in run.methods if m.label == label}
    return len(kinds) == 1 and _scores(one, label) == _scores(other, label) != {}


def _scores(run: Run, label: str) -> dict[int, list[tuple[object, ...]]]:
    return {
        seed: [(r.number, r.accuracy, r.affected_accuracy) for r in rounds]
        for seed, rounds in run.rounds.get(label, {}).items()
    }


def _without_savings(summary: MethodSummary) -> MethodSummary:
    """Drop the rounds saved: they are against a method of the same folder."""
    dropped = {"share_saved": None, "rounds_saved": None}
    return dataclasses.replace(summary, values={**summary.values, **dropped})
