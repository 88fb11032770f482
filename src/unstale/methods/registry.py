"""Methods by name: a compensator, an aggregator, and what they stand for.

`method("first_order", lam=0.5)` is how the command line, the experiments and
the Flower engine make a method; `register` adds one. A method made by name can
be written down as its name and settings and made again from them.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.lazy import load_named
from unstale.methods.aggregator_registry import as_aggregator
from unstale.methods.groups import group_with, make_part, merged

if TYPE_CHECKING:
    from unstale.methods.aggregate import Aggregator
    from unstale.methods.base import Compensator

# Classes of this package are named and not imported: they need torch, and a list of the
# methods should not.
IDENTITY = "unstale.methods.identity:Identity"
FED_AVG = "unstale.methods.aggregate:FedAvg"


@dataclass(frozen=True, slots=True)
class Method:
    """A way of handling staleness: what is done to updates, and how they are combined.

    Example:
        >>> from unstale import Drop
        >>> Method(compensator=Drop(5)).aggregator
        FedAvg(server_lr=1.0)
    """

    compensator: "Compensator" = dataclasses.field(default_factory=lambda: load_named(IDENTITY)())
    aggregator: "Aggregator" = dataclasses.field(default_factory=lambda: load_named(FED_AVG)())
    name: str = "custom"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What was given beside the name; the rest is at its default."""
    delayed: bool = True
    """False for the oracle, to which the simulator delivers every update at once."""


class MethodSpec:
    """How a named method is made, and how it is described.

    Args:
        does: One line for tables and `unstale methods`.
        paper: Where it was published.
        compensator: What is done to updates: a frozen dataclass, or where it is, as
            `"package.module:Class"`, which is then imported when a method is made.
        aggregator: How updates are combined, given likewise.
        delayed: As in `Method`.
        presets: Settings that belong together, by the name that `preset` takes; given as
            they are, or where they are.

    Example:
        >>> MethodSpec("Drops stale updates.", "-", "unstale.methods.drop:Drop").compensator
        <class 'unstale.methods.drop.Drop'>
    """

    def __init__(
        self,
        does: str,
        paper: str,
        compensator: "type[Compensator] | str" = IDENTITY,
        aggregator: "type[Aggregator] | str" = FED_AVG,
        delayed: bool = True,
        presets: Mapping[str, Mapping[str, Any]] | str | None = None,
    ) -> None:
        self.does = does
        self.paper = paper
        self.delayed = delayed
        self._compensator = compensator
        self._aggregator = aggregator
        self._presets = presets or {}

    @property
    def compensator(self) -> "type[Compensator]":
        """The class of the compensator."""
        found: type[Compensator] = _loaded(self._compensator)
        return found

    @property
    def aggregator(self) -> "type[Aggregator]":
        """The class of the aggregator."""
        found: type[Aggregator] = _loaded(self._aggregator)
        return found

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings that belong together, by the name that `preset` takes; empty for none."""
        found: Mapping[str, Mapping[str, Any]] = _loaded(self._presets)
        return found

    @property
    def is_loaded(self) -> bool:
        """Whether both classes were given as classes, so that reading them imports nothing."""
        return not (isinstance(self._compensator, str) or isinstance(self._aggregator, str))

    @property
    def takes_aggregator(self) -> bool:
        """Whether `aggregator` may name another one: not if the method is about aggregation."""
        return self._aggregator == FED_AVG

    def fields(self) -> dict[str, dataclasses.Field[Any]]:
        """Return the settings by name: the compensator's, then the aggregator's."""
        return {
            field.name: field
            for part in (self.compensator, self.aggregator)
            for field in dataclasses.fields(part)  # type: ignore[arg-type]
        }


def _loaded(part: Any) -> Any:
    return load_named(part) if isinstance(part, str) else part


METHODS: dict[str, MethodSpec] = {}


def register(name: str, spec: MethodSpec, *, force: bool = False) -> None:
    """Add a method by name; an existing one is replaced only with `force`.

    Raises:
        ConfigError: If the name is taken, or compensator and aggregator share a setting.
    """
    if name in METHODS and not force:
        raise ConfigError(
            f"Method names should be unique. Found '{name}' twice. Pass force=True to replace it."
        )
    if spec.is_loaded:  # what is only named is not imported here; `method` checks it
        _check_settings(name, spec)
    METHODS[name] = spec


def _check_settings(name: str, spec: MethodSpec) -> None:
    own = [
        {f.name for f in dataclasses.fields(part)}  # type: ignore[arg-type]
        for part in (spec.compensator, spec.aggregator)
    ]
    if shared := own[0] & own[1]:
        raise ConfigError(
            f"Method '{name}': compensator and aggregator should have settings of different "
            f"names. Both have {sorted(shared)}."
        )


def find(name: str) -> MethodSpec:
    """Return how the method of that name is made.

    Raises:
        UnknownNameError: If there is no such method; names the nearest.
    """
    if name not in METHODS:
        raise UnknownNameError("A method", name, METHODS)
    return METHODS[name]


def method(name: str, **settings: Any) -> Method:
    """Return the method of that name with the given settings.

    Settings in groups are given as tables: `inversion={"sparsity": 0}`. A group that can be
    turned off also takes a bool: `stand_in=False`. A method that has presets takes
    `preset="name"` among its settings; settings given beside it take precedence. A method with
    FedAvg takes another `aggregator`: a name, a table with `name` and settings, or an object.

    Raises:
        UnknownNameError: If there is no such method or setting; names the nearest.

    Example:
        >>> method("first_order", lam=0.5).compensator
        FirstOrder(lam=0.5, fallback='keep')
    """
    spec = find(name)
    _check_settings(name, spec)
    beside = [*(["preset"] if spec.presets else []), *["aggregator"] * spec.takes_aggregator]
    known = {*spec.fields(), *beside}
    for key in settings:
        if key not in known and (group := group_with(spec.compensator, key)):
            raise ConfigError(
                f"Method '{name}' should have `{key}` in its group `{group}`. Found it outside. "
                f"Give {group}={{'{key}': ...}}."
            )
        if key not in known:
            raise UnknownNameError(f"A setting of method '{name}'", key, known)
    if (chosen := settings.get("preset")) is not None and chosen not in spec.presets:
        raise UnknownNameError(f"A preset of method '{name}'", str(chosen), spec.presets)
    values = merged(spec.presets.get(chosen or "", {}), settings)
    compensator = make_part(spec.compensator, values, name)
    if (given := settings.get("aggregator")) is None:
        aggregator = make_part(spec.aggregator, values, name)
    else:
        _check_no_other(name, spec, settings)
        aggregator = as_aggregator(given)
    return Method(compensator, aggregator, name, settings, spec.delayed)


def _check_no_other(name: str, spec: MethodSpec, settings: Mapping[str, Any]) -> None:
    """Raise ConfigError if a setting of the aggregator that is replaced is given."""
    own = {field.name for field in dataclasses.fields(spec.aggregator)}  # type: ignore[arg-type]
    if given := sorted(own & {*settings}):
        raise ConfigError(
            f"Method '{name}' should have settings of its aggregator in the table `aggregator`. "
            f"Found {given} beside it."
        )


def as_method(value: "str | Method | Compensator") -> Method:
    """Return a method: as it is, by its name, or a compensator with FedAvg.

    Example:
        >>> from unstale import Drop
        >>> as_method(Drop(5)).compensator
        Drop(max_staleness=5)
    """
    from unstale.methods.base import Compensator

    if isinstance(value, Method):
        return value
    if isinstance(value, str):
        return method(value)
    if isinstance(value, Compensator) and not isinstance(value, type):
        return Method(value)
    raise ConfigError(
        "`method` should be a name, a method as `method(name, ...)` makes it, or a compensator "
        f"such as `Convert(...)`. Found {value!r}."
    )


register(
    "no_delay",
    MethodSpec("No delay at all: the ceiling. Only a simulator can give it.", "-", delayed=False),
)
register(
    "unweighted", MethodSpec("Adds stale updates as they come.", "McMahan et al. 2017 (FedAvg)")
)
register(
    "weighted",
    MethodSpec(
        "Weighs stale updates by 1/(1+e^(a(τ−b))).",
        "Shi et al. 2020 (HySync)",
        "unstale.methods.weighting:SigmoidWeight",
    ),
)
register(
    "polynomial",
    MethodSpec(
        "Weighs stale updates by (1+τ)^−a, the weights of FedAsync.",
        "Xie et al. 2019",
        "unstale.methods.weighting:PolynomialWeight",
    ),
)
register(
    "hinge",
    MethodSpec(
        "Weighs stale updates by 1/(a(τ−b)+1) beyond b, the weights of FedAsync.",
        "Xie et al. 2019",
        "unstale.methods.weighting:HingeWeight",
    ),
)
register(
    "exponential",
    MethodSpec(
        "Weighs stale updates by e^(−aτ).",
        "Chen et al. 2019",
        "unstale.methods.weighting:ExponentialWeight",
    ),
)
register(
    "scaled",
    MethodSpec(
        "Weighs stale updates by one factor, which may be above 1.",
        "Wang and Gao 2025, Appendix B",
        "unstale.methods.weighting:ScaledWeight",
    ),
)
register(
    "drop",
    MethodSpec(
        "Drops updates whose staleness is above a bound.",
        "Bonawitz et al. 2019",
        "unstale.methods.drop:Drop",
    ),
)
register(
    "first_order",
    MethodSpec(
        "Corrects by a first-order Taylor term: Δ − λ·Δ⊙Δ⊙(w_t − w_base).",
        "Zheng et al. 2017 (DC-ASGD)",
        "unstale.methods.first_order:FirstOrder",
    ),
)
register(
    "w_pred",
    MethodSpec(
        "Corrects as first_order, but for a predicted change of the model, not the true one.",
        "Wang and Gao 2025 (W-Pred), after Hakimi et al. 2019",
        "unstale.methods.prediction:PredictedMove",
    ),
)
register(
    "asyn_tiers",
    MethodSpec(
        "FedAvg within tiers of clients, then a mean of their updates by numbers of clients.",
        "Wang and Gao 2025 (Asyn-Tiers), after FedAT",
        aggregator="unstale.methods.aggregate:Tiers",
    ),
)
register(
    "fedat",
    MethodSpec(
        "FedAT: keeps a model per tier of clients and averages them, silent tiers included.",
        "Chai et al. 2021 (FedAT)",
        aggregator="unstale.methods.aggregate:FedAT",
    ),
)
register(
    "memory",
    MethodSpec(
        "Uses a client's last update again while it is away.",
        "Gu et al. 2021 (MIFA)",
        "unstale.methods.memory:Memory",
    ),
)
register(
    "convert",
    MethodSpec(
        "Turns stale updates into fresh ones, and stands in for absent clients, by surrogates.",
        "Wang and Gao 2025",
        "unstale.methods.conversion:Convert",
        presets="unstale.methods.conversion.settings:PRESETS",
    ),
)
register(
    "generator",
    MethodSpec(
        "Comparator: trains today's model on samples of a generator made without data.",
        "Wang and Gao 2025, Appendix C, after Chen et al. 2019 (DAFL) and Zhu et al. 2021 (FedGen)",
        "unstale.methods.comparators:DataFreeGenerator",
    ),
)
register(
    "dreams",
    MethodSpec(
        "Comparator: trains today's model on inputs optimised against the client's model.",
        "Wang and Gao 2025, Appendix C, after Yin et al. 2020 (DeepInversion)",
        "unstale.methods.comparators:DreamedInputs",
    ),
)
