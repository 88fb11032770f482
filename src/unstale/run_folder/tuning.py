"""The record of a tuning, `tuning.json`: what was tried of each method, and what was chosen.

It is written when a run with tuning begins, then without scores, and again when all tries are
done. A run that uses settings that were chosen elsewhere has a copy of that record.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.files import write_json
from unstale.run_folder.schema.checked import DamageError, count, items, mapping, number

FORMAT = 1
"""The version of `tuning.json`."""

Figures = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Try:
    """One candidate's settings, and how good they were."""

    settings: Mapping[str, Any]
    """By dotted key; foreign text. Empty for the method's own settings."""
    score: float | None = None
    """The criterion, mean over seeds; None before it was tried, and where there is a fault."""
    figures: Figures = field(default_factory=dict)
    """Accuracies, means over seeds."""
    per_seed: Mapping[int, Figures] = field(default_factory=dict)
    """The same for each seed."""
    fault: str = ""
    """Why it could not be chosen: it diverged, or failed; foreign text."""

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads back."""
        return {
            "settings": dict(self.settings),
            "score": self.score,
            "figures": dict(self.figures),
            "per_seed": [{"seed": seed, **figures} for seed, figures in self.per_seed.items()],
            "fault": self.fault,
        }

    @classmethod
    def from_json(cls, value: object) -> "Try":
        """Return one entry of `tries`.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A try")
        seeds = [mapping(one, "per_seed") for one in items(fields.get("per_seed"), "per_seed")]
        return cls(
            settings=mapping(fields.get("settings"), "settings"),
            score=number(fields.get("score"), "score"),
            figures=_figures(fields.get("figures")),
            per_seed={
                count(one.get("seed"), "seed"): _figures(
                    {key: figure for key, figure in one.items() if key != "seed"}
                )
                for one in seeds
            },
            fault=str(fields.get("fault") or ""),
        )


@dataclass(frozen=True, slots=True)
class TunedMethod:
    """The tries of one method."""

    name: str
    """The registered name."""
    candidates: Any
    """What the experiment lists, as in its file: values by setting, or a list of settings."""
    size: int
    """How many settings that are; more than were tried if the budget was smaller."""
    tries: tuple[Try, ...]
    """In the order of the file."""
    chosen: int | None = None
    """The position of the best try; None before all are done, or if all have a fault."""

    @property
    def choice(self) -> Try | None:
        """The try that was chosen."""
        return None if self.chosen is None else self.tries[self.chosen]

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads back."""
        return {
            "name": self.name,
            "candidates": self.candidates,
            "size": self.size,
            "tries": [one.to_json() for one in self.tries],
            "chosen": self.chosen,
        }

    @classmethod
    def from_json(cls, value: object) -> "TunedMethod":
        """Return one entry of `methods`.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A tuned method")
        tries = tuple(Try.from_json(one) for one in items(fields.get("tries"), "tries"))
        chosen = fields.get("chosen")
        position = None if chosen is None else count(chosen, "chosen")
        if position is not None and position >= len(tries):
            raise DamageError(f"chosen should be below {len(tries)}. Found {position}.")
        return cls(
            name=str(fields.get("name", "?")),
            candidates=fields.get("candidates"),
            size=count(fields.get("size"), "size"),
            tries=tries,
            chosen=position,
        )


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """A whole tuning."""

    criterion: str
    """The name of the measure that chose."""
    says: str
    """What it measures, in words."""
    seeds: tuple[int, ...]
    """The seeds that settings were tried on."""
    budget: int
    """How many settings of each method could be tried."""
    methods: Mapping[str, TunedMethod]
    """By label."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The experiment that settings were tried in, resolved."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Commit, command and hardware of the run that tried them."""
    finished: bool = False
    """Whether all tries are done."""
    elsewhere: tuple[str, ...] | None = None
    """For a record of another run: the settings in which that experiment differs from this one."""

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads back."""
        return {
            "format": FORMAT,
            "finished": self.finished,
            "criterion": self.criterion,
            "says": self.says,
            "seeds": list(self.seeds),
            "budget": self.budget,
            "methods": {label: one.to_json() for label, one in self.methods.items()},
            "elsewhere": None if self.elsewhere is None else list(self.elsewhere),
            "environment": dict(self.environment),
            "config": dict(self.config),
        }

    @classmethod
    def from_json(cls, value: object) -> "TuningRecord":
        """Return the record that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind, or the format is another one.
        """
        fields = mapping(value, "The file")
        if fields.get("format") != FORMAT:
            raise DamageError(f"format should be {FORMAT}. Found {fields.get('format')!r:.60}.")
        differing = fields.get("elsewhere")
        return cls(
            criterion=str(fields.get("criterion", "?")),
            says=str(fields.get("says", "")),
            seeds=tuple(count(seed, "seeds") for seed in items(fields.get("seeds"), "seeds")),
            budget=count(fields.get("budget"), "budget"),
            methods={
                label: TunedMethod.from_json(one)
                for label, one in mapping(fields.get("methods"), "methods").items()
            },
            config=mapping(fields.get("config"), "config"),
            environment=mapping(fields.get("environment"), "environment"),
            finished=fields.get("finished") is True,
            elsewhere=None
            if differing is None
            else tuple(str(key) for key in items(differing, "elsewhere")),
        )

    def summary(self) -> dict[str, Any]:
        """Return what a run's summary says of it: what was tried, and what was chosen."""
        return {
            "criterion": self.criterion,
            "says": self.says,
            "seeds": list(self.seeds),
            "budget": self.budget,
            "methods": {
                label: {
                    "chosen": None if one.choice is None else dict(one.choice.settings),
                    "score": None if one.choice is None else one.choice.score,
                    "candidates": one.size,
                    "tried": [
                        {"settings": dict(t.settings), "score": t.score, "fault": t.fault}
                        for t in one.tries
                    ],
                }
                for label, one in self.methods.items()
            },
            "elsewhere": None if self.elsewhere is None else list(self.elsewhere),
        }


def read_tuning(path: Path) -> TuningRecord | None:
    """Read a record; None if there is no such file.

    Raises:
        RunError: If it is damaged.
    """
    try:
        return TuningRecord.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{path} should be the record of a tuning, as `unstale run --tune` writes it. "
            f"It cannot be read: {error}"
        ) from error


def write_tuning(path: Path, record: TuningRecord) -> None:
    """Write a record atomically."""
    write_json(path, record.to_json())


def _figures(value: object) -> dict[str, float | None]:
    found = mapping(value, "figures")
    return {key: number(figure, key) for key, figure in found.items()}
