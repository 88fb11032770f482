"""The line of a round: the one typed form in which every engine writes it and all read it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from unstale.notes import NOTE_KINDS, NoteKind
from unstale.run_folder.schema.calibration import Calibrated
from unstale.run_folder.schema.checked import (
    DamageError,
    VersionError,
    count,
    counts,
    items,
    mapping,
    number,
    whole,
)
from unstale.run_folder.schema.conversions import Converted, FellBack, Measured, shares
from unstale.run_folder.schema.nodes import Nodes
from unstale.run_folder.schema.recipes import OtherRecipe
from unstale.run_folder.schema.stand_ins import Checked, StoodIn

SCHEMA = 2
"""The version of the lines that this Unstale writes and reads. Lines before 2 had none."""

# What an app measured beside the four scores: one number, or one for each class.
Metric = float | Sequence[float | None] | None

_ORACLE = "oracle/"


@dataclass(frozen=True, slots=True)
class Round:
    """One line of `rounds/<label>/seed-<n>.jsonl`: one server step and what was measured.

    The server's report fills in what the step did; the engine adds the rest. `to_json` and
    `from_json` are inverse to each other.

    Example:
        >>> line = Round(3, arrivals=2, stale=1, staleness={0: 1, 4: 1}).to_json()
        >>> line["schema"], line["round"], line["staleness"]
        (2, 3, {'mean': 2.0, 'max': 4, 'counts': {'0': 1, '4': 1}})
        >>> Round.from_json(line).max_staleness
        4
    """

    number: int
    """The round, from 1; `round` in the file."""
    method: str | None = None
    """The label of the method."""
    seed: int | None = None
    """The seed of the run."""
    version: int = 0
    """The version of the model that the step made."""
    accuracy: float | None = None
    """Test accuracy over all classes; None in rounds that were not evaluated."""
    affected_accuracy: float | None = None
    """Test accuracy in the affected classes; None as above."""
    class_accuracy: tuple[float | None, ...] | None = None
    """Test accuracy by class; None as above."""
    loss: float | None = None
    """Mean loss on the test set; None as above, or where it is not finite."""
    arrivals: int = 0
    """Updates that took part."""
    stale: int = 0
    """Those of them that were stale."""
    staleness: Mapping[int, int] = field(default_factory=dict)
    """How many of them had which staleness."""
    changed: bool = False
    """Whether the weights moved; they stay in a round without usable updates."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """How many updates were refused for which reason."""
    notes: Mapping[NoteKind, int] = field(default_factory=dict)
    """How many notes of which kind compensator and aggregator made."""
    conversions: int = 0
    """Stale updates that were converted."""
    iterations: int = 0
    """Iterations of all fits."""
    converted: tuple[Converted, ...] = ()
    """Those conversions, one by one."""
    fell_back: tuple[FellBack, ...] = ()
    """Updates that fell back, one by one; `fallbacks` in the file."""
    gamma: Mapping[str, float] = field(default_factory=dict)
    """The estimate's share γ, by client, of those that are switching back."""
    measured: tuple[Measured, ...] = ()
    """Earlier estimates that were compared with what came now."""
    calibrated: tuple[Calibrated, ...] = ()
    """What conversions make of earlier updates, compared with true ones that came now."""
    other_recipes: tuple[OtherRecipe, ...] = ()
    """Clients that were found to train by another recipe than the server assumes."""
    history: Mapping[str, int] = field(default_factory=dict)
    """Past versions that the server kept: `versions`, `bytes` in memory, how many `on_disk`."""
    awaiting_fit: int | None = None
    """Accepted updates whose background fit is under way; None without a background."""
    absent: int = 0
    """Clients that were drawn but at work or away, and sent nothing in this round."""
    stand_ins: tuple[StoodIn, ...] = ()
    """Those of them that the server stood in for; they are not among the arrivals."""
    checked: tuple[Checked, ...] = ()
    """Earlier stand-ins that were compared with what came now."""
    most_sent: int | None = None
    """Updates that the client with the most of them has sent so far; None where updates are not
    differentially private."""
    seconds: float = 0.0
    """Wall time of the round."""
    step_seconds: float | None = None
    """Wall time of the server's step alone; None where the engine does not measure it."""
    oracle: Mapping[str, float | None] = field(default_factory=dict)
    """What only a simulation can know, each under `oracle/...` in the file."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """What else an app measured of the model, by name."""
    nodes: Nodes | None = None
    """Who answered and who was late, where clients are real; None in a simulation."""

    def __post_init__(self) -> None:
        for kind in self.notes:
            if kind not in NOTE_KINDS:
                raise DamageError(
                    f"notes should be of the kinds {', '.join(NOTE_KINDS)}. Found {kind!r:.60}."
                )

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Why updates fell back, one by one; foreign text."""
        return tuple(one.reason or "no reason given" for one in self.fell_back)

    @property
    def history_bytes(self) -> int:
        """Bytes of past versions that the server held in memory."""
        return self.history.get("bytes", 0)

    @property
    def mean_staleness(self) -> float | None:
        """The mean staleness of what arrived; None where nothing did."""
        arrived = sum(self.staleness.values())
        total = sum(age * n for age, n in self.staleness.items())
        return total / arrived if arrived else None

    @property
    def max_staleness(self) -> int | None:
        """The highest staleness that arrived; None where nothing did."""
        return max(self.staleness, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON values, with the version of the schema first."""
        return {
            "schema": SCHEMA,
            **_present(method=self.method, seed=self.seed),
            "round": self.number,
            "version": self.version,
            "arrivals": self.arrivals,
            "stale": self.stale,
            "staleness": {
                "mean": self.mean_staleness,
                "max": self.max_staleness,
                "counts": {str(age): self.staleness[age] for age in sorted(self.staleness)},
            },
            "changed": self.changed,
            "refused": dict(sorted(self.refused.items())),
            "notes": dict(sorted(self.notes.items())),
            "conversions": self.conversions,
            "iterations": self.iterations,
            **_filled(
                converted=[one.to_json() for one in self.converted],
                fallbacks=[one.to_json() for one in self.fell_back],
                gamma=dict(self.gamma),
                measured=[one.to_json() for one in self.measured],
                calibrated=[one.to_json() for one in self.calibrated],
                other_recipes=[one.to_json() for one in self.other_recipes],
            ),
            **_filled(
                absent=self.absent,
                stand_ins=[one.to_json() for one in self.stand_ins],
                checked=[one.to_json() for one in self.checked],
            ),
            "history": dict(self.history),
            **_present(awaiting_fit=self.awaiting_fit, most_sent=self.most_sent),
            "seconds": self.seconds,
            **_present(step_seconds=self.step_seconds),
            **{_ORACLE + key: value for key, value in self.oracle.items()},
            "accuracy": self.accuracy,
            "affected_accuracy": self.affected_accuracy,
            "class_accuracy": None if self.class_accuracy is None else list(self.class_accuracy),
            "loss": self.loss,
            **_filled(metrics={name: _json_metric(m) for name, m in self.metrics.items()}),
            **_present(nodes=None if self.nodes is None else self.nodes.to_json()),
        }

    @classmethod
    def from_json(cls, value: object) -> "Round":
        """Return the round that `to_json` wrote; keys that are missing have their default.

        Raises:
            VersionError: If the line is of another version of the schema, or of none.
            DamageError: If a value is of the wrong kind.
        """
        if not isinstance(value, dict):
            raise DamageError(f"A round should be an object. Found {value!r:.60}.")
        fields: dict[str, Any] = value
        _check_version(fields.get("schema"))
        if "round" not in fields:
            raise DamageError("A round should have a 'round' number. Found none.")
        return cls(
            number=count(fields["round"], "round"),
            method=None if fields.get("method") is None else str(fields["method"]),
            seed=None if fields.get("seed") is None else whole(fields["seed"], "seed"),
            version=count(fields.get("version"), "version"),
            accuracy=number(fields.get("accuracy"), "accuracy"),
            affected_accuracy=number(fields.get("affected_accuracy"), "affected_accuracy"),
            class_accuracy=_by_class(fields.get("class_accuracy")),
            loss=number(fields.get("loss"), "loss"),
            arrivals=count(fields.get("arrivals"), "arrivals"),
            stale=count(fields.get("stale"), "stale"),
            staleness=dict(_ages(mapping(fields.get("staleness"), "staleness").get("counts"))),
            changed=_flag(fields.get("changed"), "changed"),
            refused=counts(fields.get("refused"), "refused"),
            # Checked when the round is made.
            notes=cast("dict[NoteKind, int]", counts(fields.get("notes"), "notes")),
            conversions=count(fields.get("conversions"), "conversions"),
            iterations=count(fields.get("iterations"), "iterations"),
            converted=tuple(map(Converted.from_json, items(fields.get("converted"), "converted"))),
            fell_back=tuple(map(FellBack.from_json, items(fields.get("fallbacks"), "fallbacks"))),
            gamma=shares(fields.get("gamma")),
            measured=tuple(map(Measured.from_json, items(fields.get("measured"), "measured"))),
            calibrated=tuple(
                map(Calibrated.from_json, items(fields.get("calibrated"), "calibrated"))
            ),
            other_recipes=tuple(
                map(OtherRecipe.from_json, items(fields.get("other_recipes"), "other_recipes"))
            ),
            history=counts(fields.get("history"), "history"),
            awaiting_fit=None
            if fields.get("awaiting_fit") is None
            else count(fields["awaiting_fit"], "awaiting_fit"),
            absent=count(fields.get("absent"), "absent"),
            most_sent=None
            if fields.get("most_sent") is None
            else count(fields["most_sent"], "most_sent"),
            stand_ins=tuple(map(StoodIn.from_json, items(fields.get("stand_ins"), "stand_ins"))),
            checked=tuple(map(Checked.from_json, items(fields.get("checked"), "checked"))),
            seconds=number(fields.get("seconds"), "seconds") or 0.0,
            step_seconds=number(fields.get("step_seconds"), "step_seconds"),
            oracle={
                key.removeprefix(_ORACLE): number(found, key)
                for key, found in fields.items()
                if key.startswith(_ORACLE)
            },
            metrics={
                name: _metric(found, name)
                for name, found in mapping(fields.get("metrics"), "metrics").items()
            },
            nodes=None if fields.get("nodes") is None else Nodes.from_json(fields["nodes"]),
        )


def _check_version(found: object) -> None:
    if type(found) is int and found == SCHEMA:
        return
    what = "a line without one" if found is None else f"version {found!r:.60}"
    raise VersionError(
        f"A round's line should be of version {SCHEMA} of the schema. Found {what}. "
        "Use the version of Unstale that wrote it, or run again."
    )


def _present(**fields: object) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def _filled(**fields: object) -> dict[str, Any]:
    """Return the fields that hold anything."""
    return {key: value for key, value in fields.items() if value}


def _flag(value: object, what: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise DamageError(f"{what} should be true or false. Found {value!r:.60}.")
    return bool(value)


def _ages(value: object) -> Iterator[tuple[int, int]]:
    for age, n in counts(value, "staleness.counts").items():
        if not age.isdecimal():
            raise DamageError(
                f"A staleness should be a whole number of at least 0. Found {age!r:.60}."
            )
        yield int(age), n


def _by_class(value: object) -> tuple[float | None, ...] | None:
    if value is None:
        return None
    return tuple(number(one, "class_accuracy") for one in items(value, "class_accuracy"))


def _metric(value: object, name: str) -> Metric:
    if isinstance(value, list):
        return tuple(number(one, name) for one in value)
    return number(value, name)


def _json_metric(value: Metric) -> float | list[float | None] | None:
    return list(value) if isinstance(value, Sequence) else value
