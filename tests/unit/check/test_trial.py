"""A trial of compensators: what they are given, and how what they return is judged."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from unstale import LocalSpec, local_update
from unstale.check import Client, Trial, errors_of, run_trial
from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.methods import ConvertAll, Drop, FirstOrder, Identity, Stateless
from unstale.params import add, scale
from unstale.seeding import generator
from unstale.updates import Outcome

MODEL = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
INPUTS = InputSpec((3,), 2)
LOCAL = LocalSpec(lr=0.2, epochs=1, batch_size=4)  # mini-batches: shuffles matter
TRIAL = Trial(slow=(1, 4), staleness=3, begin=2, arrivals=3, every=2, fresh=2, seed=7)
START = {
    name: torch.randn(p.shape, generator=generator(0, "test", name))
    for name, p in MODEL.named_parameters()
}


def client(index, samples):
    rng = generator(0, "test", "client", index)
    x = torch.randn(samples, 3, generator=rng)
    return Client(x, (x.sum(1) > 0).long())


CLIENTS = [client(i, 6 + i) for i in range(7)]


def run(compensators, trial=TRIAL, clients=CLIENTS, local=LOCAL):
    return run_trial(MODEL, clients, trial, compensators, local=local, inputs=INPUTS, start=START)


def trained(index, version, params, seed=TRIAL.seed):
    """The update that a client truly makes of a version."""
    own, rng = CLIENTS[index], generator(seed, "trial", index, version)
    return local_update(MODEL, params, own.x, own.y, LOCAL, rng)


@dataclass(frozen=True)
class Recorder(Stateless):
    """Changes nothing and keeps what it is given."""

    calls: list = field(default_factory=list)

    def apply(self, updates, state, view):
        kept = {u.key: view.history(u.base_version) for u in updates}
        self.calls.append((view, list(updates), kept))
        return Outcome(tuple(updates), state)


class Truth(Stateless):
    """Trains late clients anew, as if the server had their data."""

    def apply(self, updates, state, view):
        late = [u for u in updates if u.staleness(view.version)]
        fresh = [u for u in updates if not u.staleness(view.version)]
        found = [
            dataclasses.replace(u, delta=trained(int(u.client_id), view.version, view.params))
            for u in late
        ]
        return Outcome((*fresh, *found), state)


class Noisy(Stateless):
    """Adds noise from the generator that it is given."""

    def apply(self, updates, state, view):
        noise = {n: torch.randn(p.shape, generator=view.rng) for n, p in view.params.items()}
        found = [dataclasses.replace(u, delta=add(u.delta, noise)) for u in updates]
        return Outcome(tuple(found), state)


@pytest.fixture(scope="module")
def recorded():
    recorder = Recorder()
    return recorder.calls, run({"recorder": recorder})


def errors(measured):
    return [(m.client, m.arrival, m.stale, m.used) for m in measured]


def test_the_truth_has_no_error():
    found = run({"truth": Truth()})
    assert [m.used.cosine for m in found] == pytest.approx([0] * len(found), abs=1e-12)
    assert [m.used.l2 for m in found] == [0] * len(found)
    assert all(m.stale.l2 > 0.01 for m in found)


def test_an_unchanged_update_is_as_far_off_as_the_stale_one():
    found = run({"identity": Identity()})
    assert len(found) == 6
    assert all(m.used == m.stale for m in found)


def test_a_dropped_update_counts_as_it_came():
    found = run({"drop": Drop()})
    assert len(found) == 6
    assert all(m.used == m.stale for m in found)


def test_every_late_update_is_measured_once(recorded):
    _, found = recorded
    assert [(m.client, m.arrival) for m in found] == [
        (client, arrival) for arrival in range(3) for client in (1, 4)
    ]
    assert {m.label for m in found} == {"recorder"}
    assert all(m.memory is None and m.seconds > 0 for m in found)


def test_late_updates_arrive_when_the_trial_says(recorded):
    calls, _ = recorded
    assert TRIAL.versions == len(calls) == 10
    assert [view.version for view, _, _ in calls] == list(range(10))
    late = {
        view.version: [u.key for u in updates if u.base_version != view.version]
        for view, updates, _ in calls
    }
    # From versions 2, 4 and 6, three versions late.
    expected = {base + 3: [("1", base), ("4", base)] for base in (2, 4, 6)}
    assert {version: keys for version, keys in late.items() if keys} == expected


def test_the_server_still_has_the_weights_that_a_late_update_began_from(recorded):
    calls, _ = recorded
    weights = {view.version: view.params for view, _, _ in calls}
    for _, updates, kept in calls:
        for update in updates:
            base = kept[update.key]
            assert base is not None
            assert all(torch.equal(base[n], weights[update.base_version][n]) for n in base)


def test_updates_are_what_clients_train(recorded):
    calls, _ = recorded
    weights = {view.version: view.params for view, _, _ in calls}
    for _, updates, _ in calls:
        for update in updates:
            index, base = int(update.client_id), update.base_version
            assert update.num_examples == len(CLIENTS[index].x)
            assert errors_of(update.delta, trained(index, base, weights[base])).l2 < 1e-6


def test_the_path_is_the_mean_of_all_clients_by_samples(recorded):
    calls, _ = recorded
    params, following = calls[0][0].params, calls[1][0].params
    assert all(torch.equal(params[n], START[n]) for n in START)
    total = sum(len(c.x) for c in CLIENTS)
    for index, own in enumerate(CLIENTS):
        params = add(params, scale(trained(index, 0, START), len(own.x) / total))
    for name, value in following.items():
        torch.testing.assert_close(value, params[name])


def test_errors_are_against_what_the_client_would_send_now(recorded):
    calls, found = recorded
    view, updates, _ = calls[5]
    late = next(u for u in updates if u.key == ("4", 2))
    expected = errors_of(late.delta, trained(4, 5, view.params))
    measured = next(m for m in found if (m.client, m.arrival) == (4, 0))
    assert dataclasses.astuple(measured.stale) == pytest.approx(dataclasses.astuple(expected))


def fresh_of(calls):
    return [[u.client_id for u in ups if u.base_version == v.version] for v, ups, _ in calls]


def test_fresh_clients_come_in_turn(recorded):
    calls, _ = recorded
    arrived = fresh_of(calls)
    assert arrived[:3] == [["0", "2"], ["3", "5"], ["0", "6"]]
    # Five fast clients, two in each of ten versions.
    assert Counter(c for ids in arrived for c in ids) == dict.fromkeys("02356", 4)


@pytest.mark.parametrize("count", [None, 5, 50])
def test_all_fast_clients_can_arrive_in_each_version(count):
    recorder = Recorder()
    run({"recorder": recorder}, dataclasses.replace(TRIAL, fresh=count))
    assert all(ids == list("02356") for ids in fresh_of(recorder.calls))


def test_the_same_seed_gives_the_same_numbers():
    convert = {"convert": ConvertAll(), "noisy": Noisy()}
    one, same = run(convert), run(convert)
    assert errors(one) == errors(same)
    other = run(convert, dataclasses.replace(TRIAL, seed=8))
    assert errors(one) != errors(other)


def test_a_compensator_is_judged_alike_beside_others():
    alone = {name: run({name: c}) for name, c in (("a", Noisy()), ("b", FirstOrder(lam=9.0)))}
    both = run({"b": FirstOrder(lam=9.0), "c": Noisy(), "a": Noisy()})
    for name, found in alone.items():
        assert errors(found) == errors(m for m in both if m.label == name)
    assert errors(alone["a"]) == [
        (m.client, m.arrival, m.stale, m.used) for m in both if m.label == "c"
    ]


def test_what_the_notes_say_is_kept():
    found = run({"convert": ConvertAll(), "first_order": FirstOrder()})
    by_label = {m.label: m for m in found}
    assert by_label["first_order"].kinds == ("compensated",)
    convert = by_label["convert"]
    assert convert.kinds[0] in ("converted", "fallback")
    assert {*convert.kinds[1:]} <= {"calibrated"}, "the truth for an earlier one"
    assert convert.detail["iterations"] > 0
    assert all(isinstance(value, int | float | str) for value in convert.detail.values())


@pytest.mark.parametrize("name", ["staleness", "arrivals", "every"])
def test_a_trial_without_late_updates_is_refused(name):
    with pytest.raises(ConfigError, match=f"`{name}` should be at least 1. Found 0"):
        dataclasses.replace(TRIAL, **{name: 0})


def test_what_batches_change_by_chance_is_measured():
    """The same client trained again: with other batches where it draws any, else nothing."""
    whole = run({"identity": Identity()}, local=LocalSpec(lr=0.1, steps=3))
    assert all(m.again is None for m in whole)
    batches = LocalSpec(lr=0.1, epochs=2, batch_size=3)
    found = run({"identity": Identity(), "drop": Drop()}, local=batches)
    assert all(0 < m.again.cosine < 1 for m in found)
    apart = {(m.client, m.arrival): m.again for m in found}
    assert len(set(apart.values())) == len(apart) == len(found) / 2, "one for all compensators"


@dataclass(frozen=True)
class HalfOfTheData(Stateless):
    """Trains late clients on half of their samples, as if the server had these."""

    local: LocalSpec

    def apply(self, updates, state, view):
        found = []
        for u in updates:
            if u.staleness(view.version):
                index = int(u.client_id)
                own, rng = CLIENTS[index], generator(TRIAL.seed, "half", index)
                kept = torch.randperm(len(own.x), generator=rng)[: len(own.x) // 2]
                rng = generator(TRIAL.seed, "trial half", index, view.version)
                delta = local_update(MODEL, view.params, own.x[kept], own.y[kept], self.local, rng)
                u = dataclasses.replace(u, delta=delta)
            found.append(u)
        return Outcome(tuple(found), state)


def test_what_half_of_a_clients_data_would_give_is_measured():
    whole = LocalSpec(lr=0.1, steps=3)
    found = run({"half": HalfOfTheData(whole), "drop": Drop()}, local=whole)
    by_hand = [m.used.cosine for m in found if m.label == "half"]
    for label in ("half", "drop"):
        measured = [m.half.cosine for m in found if m.label == label]
        assert measured == pytest.approx(by_hand, abs=1e-6)
    assert min(by_hand) > 0.001
    # In mini-batches it takes as many steps as the client, of whom these have 8 and 10 samples.
    found = run({"drop": Drop()}, local=LocalSpec(lr=0.1, epochs=3, batch_size=4))
    same = {
        1: LocalSpec(lr=0.1, steps=6, batch_size=2),
        4: LocalSpec(lr=0.1, steps=9, batch_size=2),
    }
    for index, recipe in same.items():
        by_hand = run(
            {"half": HalfOfTheData(recipe)}, local=LocalSpec(lr=0.1, epochs=3, batch_size=4)
        )
        wanted = [m.used.cosine for m in by_hand if m.client == index]
        assert [m.half.cosine for m in found if m.client == index] == pytest.approx(
            wanted, abs=1e-6
        )
    single = [Client(c.x[:1], c.y[:1]) for c in CLIENTS]
    assert all(m.half is None for m in run({"drop": Drop()}, clients=single, local=whole))
