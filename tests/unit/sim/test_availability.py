import numpy as np
import pytest

from unstale.errors import ConfigError
from unstale.sim.availability import (
    KINDS,
    AlwaysAvailable,
    MarkovAvailability,
    TraceAvailability,
)


def table(plan, clients, rounds):
    return np.array([[plan.available(c, r) for r in range(rounds)] for c in range(clients)])


def test_every_kind_is_registered():
    assert dict(KINDS) == {
        "always": AlwaysAvailable,
        "markov": MarkovAvailability,
        "trace": TraceAvailability,
    }


def test_always_is_always():
    assert table(AlwaysAvailable().plan(3, 0), 3, 50).all()


def test_markov_does_not_depend_on_the_order_of_questions():
    markov = MarkovAvailability(drop=0.3, back=0.4, start=0.5)
    forwards = table(markov.plan(8, 0), 8, 40)
    plan = markov.plan(8, 0)
    backwards = [[plan.available(np.int64(c), r) for r in reversed(range(40))] for c in range(8)]
    assert (np.array(backwards)[:, ::-1] == forwards).all()
    assert markov.plan(8, 0).available(5, 39) == forwards[5, 39]
    assert (table(markov.plan(8, 1), 8, 40) != forwards).any()
    assert len({tuple(row) for row in forwards}) == 8  # clients go their own ways


def test_markov_moves_with_its_probabilities():
    found = table(MarkovAvailability(drop=0.1, back=0.3).plan(100, 0), 100, 300)
    assert found[:, 0].all()
    before, after = found[:, :-1], found[:, 1:]
    assert (~after[before]).mean() == pytest.approx(0.1, abs=0.01)
    assert after[~before].mean() == pytest.approx(0.3, abs=0.02)
    assert found[:, 50:].mean() == pytest.approx(0.75, abs=0.03)


def test_markov_starts_with_an_exact_share():
    markov = MarkovAvailability(drop=0.0, back=0.0, start=0.3)
    found = table(markov.plan(50, 0), 50, 20)
    assert found[:, 0].sum() == 15
    assert (found == found[:, :1]).all()  # nobody leaves, nobody returns
    assert (table(markov.plan(50, 1), 50, 1) != found[:, :1]).any()
    certain = table(MarkovAvailability(drop=1.0, back=1.0).plan(2, 0), 2, 4)
    assert certain.tolist() == [[True, False, True, False]] * 2


def test_trace_lists_absences(tmp_path):
    file = tmp_path / "away.csv"
    file.write_text("client,from,to\n1,3,5\n1,4,6\n2,0,1\n")
    found = table(TraceAvailability(str(file)).plan(3, 0), 3, 8)
    assert found[0].all()
    assert found[1].tolist() == [True] * 3 + [False] * 3 + [True] * 2
    assert found[2].tolist() == [False] + [True] * 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("client,from\n", "Line 1 .*client,from,to"),
        ("client,from,to\n1,3,x\n", "Line 2 "),
        ("client,from,to\n1,3,5\n1,5,5\n", "Line 3 .*'from' below 'to'. Found 5 and 5"),
        ("client,from,to\n3,3,5\n", "Line 2 .*from 0 to 2. Found 3"),
    ],
)
def test_malformed_traces_are_refused_with_their_line(tmp_path, text, says):
    file = tmp_path / "away.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        TraceAvailability(str(file)).plan(3, 0)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("markov", {"drop": -0.1}),
        ("markov", {"back": 1.1}),
        ("markov", {"start": float("nan")}),
        ("trace", {}),
    ],
)
def test_bad_settings_are_refused(kind, bad):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        KINDS[kind](**bad)
