"""The line of a round: written and read by the same class, and of a known version."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstale as us
from unstale.notes import NOTE_KINDS
from unstale.report.figures.conversions import FATE_OF, FATES
from unstale.run_folder.schema import (
    SCHEMA,
    Calibrated,
    Checked,
    Converted,
    DamageError,
    FellBack,
    Measured,
    Nodes,
    RefusedReply,
    Round,
    StoodIn,
    VersionError,
)

FULL = Round(
    7,
    method="convert",
    seed=-(2**70),
    version=7,
    accuracy=0.9,
    affected_accuracy=0.1,
    class_accuracy=(0.5, None),
    loss=0.3,
    arrivals=3,
    stale=2,
    staleness={0: 1, 12: 1, 3: 1},
    changed=True,
    refused={"norm": 1, "dtype": 2},
    notes={"converted": 1, "fallback": 1},
    conversions=1,
    iterations=25,
    converted=(
        Converted("a", 0.02, 25, True, ((1, 0.9), (25, None)), base_version=3),
        Converted("b", None, 3, False, share=0.75, by="hard"),
    ),
    fell_back=(FellBack("c", "why"),),
    gamma={"d": 0.25},
    measured=(Measured("d", 0.1, None, 2), Measured("k", 0.1, 0.2, 3, 0.4, 0.5)),
    calibrated=(
        Calibrated("i", 5, 0.2, 0.1, 0.8, by="hard"),
        Calibrated("j", 9, None, None, None, True),
    ),
    history={"versions": 4, "bytes": 4000, "on_disk": 0},
    awaiting_fit=0,
    absent=3,
    stand_ins=(StoodIn("e", 12, 0.75), StoodIn("f", 40, 1.0, 1.5)),
    checked=(Checked("g", 12, 0.03, 0.9, 0.2), Checked("h", 1, None, None)),
    seconds=1.5,
    step_seconds=0.25,
    oracle={"stale_cosine": 0.5, "compensated_cosine": None},
    metrics={"f1": 0.5, "by_class": (0.1, None), "none": None},
    nodes=Nodes(("1", "2"), {"2": 3}, {"5": 1}, (RefusedReply("9", "shape", "too long"),)),
)


def through_a_file(line):
    return Round.from_json(json.loads(json.dumps(line.to_json(), allow_nan=False)))


@pytest.mark.parametrize("line", [FULL, Round(1)], ids=["full", "empty"])
def test_what_is_written_is_read_back(line):
    assert through_a_file(line) == line
    assert through_a_file(line).to_json() == line.to_json()


finite = st.none() | st.floats(allow_nan=False, allow_infinity=False)
counted = st.integers(0, 2**40)
names = st.text(max_size=5)


@given(
    st.builds(
        Round,
        counted,
        method=st.none() | names,
        seed=st.none() | st.integers(),
        version=counted,
        accuracy=finite,
        class_accuracy=st.none() | st.lists(finite, max_size=3).map(tuple),
        staleness=st.dictionaries(st.integers(0, 99), st.integers(1, 9), max_size=3),
        changed=st.booleans(),
        refused=st.dictionaries(names, counted, max_size=2),
        notes=st.dictionaries(st.sampled_from(NOTE_KINDS), counted, max_size=3),
        gamma=st.dictionaries(names, st.floats(0, 1), max_size=2),
        fell_back=st.lists(st.builds(FellBack, names, names), max_size=2).map(tuple),
        oracle=st.dictionaries(names, finite, max_size=2),
        metrics=st.dictionaries(names, finite | st.lists(finite).map(tuple), max_size=2),
        awaiting_fit=st.none() | counted,
        calibrated=st.lists(
            st.builds(Calibrated, names, counted, finite, finite, finite, st.booleans()), max_size=2
        ).map(tuple),
        absent=counted,
        stand_ins=st.lists(st.builds(StoodIn, names, counted, st.floats(0, 1)), max_size=2).map(
            tuple
        ),
        checked=st.lists(st.builds(Checked, names, counted, finite, finite), max_size=2).map(tuple),
        nodes=st.none()
        | st.builds(Nodes, st.lists(names, max_size=2).map(tuple), st.just({}), st.just({"a": 0})),
    )
)
def test_any_round_is_read_back(line):
    assert through_a_file(line) == line


def test_the_keys_of_a_line_and_their_order():
    """What docs/experiments.md lists; programs of users read them."""
    step = [
        *("round", "version", "arrivals", "stale", "staleness", "changed", "refused"),
        *("notes", "conversions", "iterations"),
    ]
    scores = ["accuracy", "affected_accuracy", "class_accuracy", "loss"]
    assert list(Round(1).to_json()) == ["schema", *step, "history", "seconds", *scores]
    assert list(FULL.to_json()) == [
        *("schema", "method", "seed", *step, "converted", "fallbacks", "gamma", "measured"),
        "calibrated",
        *("absent", "stand_ins", "checked"),
        *("history", "awaiting_fit", "seconds", "step_seconds"),
        *("oracle/stale_cosine", "oracle/compensated_cosine", *scores, "metrics", "nodes"),
    ]


def test_values_of_a_line():
    line = FULL.to_json()
    assert line["staleness"] == {"mean": 5.0, "max": 12, "counts": {"0": 1, "3": 1, "12": 1}}
    assert list(line["staleness"]["counts"]) == ["0", "3", "12"]
    assert list(line["refused"]) == ["dtype", "norm"]
    assert line["converted"] == [
        {"client": "a", "base_version": 3, "loss": 0.02, "iterations": 25, "start": "warm",
         "curve": [[1, 0.9], [25, None]]},
        {"client": "b", "base_version": 0, "loss": None, "iterations": 3, "start": "cold",
         "share": 0.75, "by": "hard"},
    ]  # fmt: skip
    assert line["fallbacks"] == [{"client": "c", "reason": "why"}]
    assert line["measured"] == [
        {"client": "d", "version": 2, "e1": 0.1, "e2": None},
        {"client": "k", "version": 3, "e1": 0.1, "e2": 0.2, "e1_l1": 0.4, "e2_l1": 0.5},
    ]
    assert line["calibrated"] == [
        {"client": "i", "lag": 5, "stale_error": 0.2, "error": 0.1, "share": 0.8, "late": False,
         "by": "hard"},
        {"client": "j", "lag": 9, "stale_error": None, "error": None, "share": None, "late": True},
    ]  # fmt: skip
    assert line["absent"] == 3
    assert line["stand_ins"] == [
        {"client": "e", "age": 12, "weight": 0.75},
        {"client": "f", "age": 40, "weight": 1.0, "scale": 1.5},
    ]
    assert line["checked"] == [
        {"client": "g", "age": 12, "error": 0.03, "l1": 0.2, "share": 0.9},
        {"client": "h", "age": 1, "error": None, "share": None},
    ]
    assert line["nodes"]["refused"] == [{"node": "9", "code": "shape", "reason": "too long"}]
    empty = Round(1).to_json()["staleness"]
    assert empty == {"mean": None, "max": None, "counts": {}}


def test_what_follows_from_a_line():
    assert FULL.fallbacks == ("why",)
    assert Round(1, fell_back=(FellBack("a", ""),)).fallbacks == ("no reason given",)
    assert (FULL.history_bytes, Round(1).history_bytes) == (4000, 0)
    assert FULL.nodes.refused == {"9": 1}
    assert FULL.converted[0].curve == ((1, 0.9),)
    points = Converted("a", None, 9, False, ((9, 0.1), (0, 5.0), (2, 0.3))).curve
    assert points == ((2, 0.3), (9, 0.1))


# --- versions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "a line without one"),
        (1, "version 1"),
        (SCHEMA + 1, f"version {SCHEMA + 1}"),
        (str(SCHEMA), f"version '{SCHEMA}'"),
        (float(SCHEMA), f"version {SCHEMA}.0"),
        (True, "version True"),
    ],
)
def test_an_unknown_version_is_a_clear_error(version, said):
    line = {**FULL.to_json(), "schema": version}
    with pytest.raises(VersionError) as caught:
        Round.from_json(line)
    assert str(caught.value) == (
        f"A round's line should be of version {SCHEMA} of the schema. Found {said}. "
        "Use the version of Unstale that wrote it, or run again."
    )


def test_the_version_is_looked_at_before_all_else():
    with pytest.raises(VersionError, match="without one"):
        Round.from_json({"round": "three", "held": []})
    assert next(iter(FULL.to_json())) == "schema"


# --- damage --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"changed": 1},
        {"seed": 1.5},
        {"seed": True},
        {"round": 10**400},
        {"notes": {"vanished": 1}},
        {"awaiting_fit": -1},
        {"step_seconds": "long"},
        {"metrics": [1]},
        {"metrics": {"f1": {"a": 1}}},
        {"oracle/stale_cosine": "far"},
        {"history": {"bytes": -1}},
        {"nodes": {"refused": [5]}},
        {"version": -1},
        {"absent": -1},
        {"absent": ["a"]},
        {"stand_ins": {"client": "a"}},
        {"stand_ins": ["a"]},
        {"stand_ins": [{"client": "a", "age": -1}]},
        {"stand_ins": [{"client": "a", "age": 1.5}]},
        {"stand_ins": [{"client": "a", "weight": "half"}]},
        {"stand_ins": [{"client": "a", "weight": -0.1}]},
        {"calibrated": 4},
        {"calibrated": [4]},
        {"calibrated": [{"client": "a", "lag": -1}]},
        {"calibrated": [{"client": "a", "share": "half"}]},
        {"calibrated": [{"client": "a", "late": 1}]},
        {"converted": [{"client": "a", "share": "half"}]},
        {"checked": 4},
        {"checked": [4]},
        {"checked": [{"client": "a", "age": "old"}]},
        {"checked": [{"client": "a", "error": True}]},
        {"checked": [{"client": "a", "share": []}]},
    ],
)
def test_a_value_of_the_wrong_kind_is_damage(fields):
    with pytest.raises(DamageError, match=r"should .*Found"):
        Round.from_json({"schema": SCHEMA, "round": 3, **fields})


@pytest.mark.parametrize("value", [None, [], 7, "x"])
def test_a_line_is_an_object(value):
    with pytest.raises(DamageError, match="A round should be an object"):
        Round.from_json(value)


def test_numbers_that_are_not_finite_are_absent():
    line = Round.from_json({"schema": SCHEMA, "round": 3, "loss": math.nan, "accuracy": math.inf})
    assert (line.loss, line.accuracy) == (None, None)


def test_what_stand_ins_and_checks_lack_has_a_default():
    fields = {"stand_ins": [{}, {"client": "a", "age": 3, "weight": None}], "checked": [{}]}
    line = Round.from_json({"schema": SCHEMA, "round": 3, **fields})
    assert line.stand_ins == (StoodIn("?", 0, 1.0), StoodIn("a", 3, 1.0))
    assert line.checked == (Checked("?", 0, None, None),)
    fields = {"absent": None, "stand_ins": None, "checked": None}
    assert Round.from_json({"schema": SCHEMA, "round": 3, **fields}) == Round(3)


# --- kinds of notes ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NOTE_KINDS)
def test_every_kind_of_note_is_known_to_the_report(kind):
    assert set(FATE_OF) == set(NOTE_KINDS)
    assert FATE_OF[kind] is None or FATE_OF[kind] in {key for key, _, _ in FATES}
    assert through_a_file(Round(1, notes={kind: 2})).notes == {kind: 2}
    report = us.Report(1, (1,), (us.Note(kind, "a", 0),))
    assert through_a_file(report.line()).notes == {kind: 1}


def test_no_other_kind_can_be_emitted():
    with pytest.raises(ValueError, match=r"should be one of: weighted, .*Found 'vanished'"):
        us.Note("vanished", "a", 0)
    with pytest.raises(DamageError, match=r"notes should be of the kinds .*Found 'vanished'"):
        Round(1, notes={"vanished": 1})


def test_it_is_imported_without_torch():
    code = (
        "import sys; import unstale.run_folder, unstale.run_folder.schema, unstale.notes\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
