"""FedAT against its formula: models of tiers, silent ones too, weighed by reversed counts."""

import copy

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.methods.aggregate import FedAT

TWO = {"a": 0.0, "b": 0.0, "z": 5.0}


def weights_after(result, view):
    """The global model that an aggregated change makes."""
    return (view.params["w"] + result.delta["w"]).tolist()


def test_the_model_of_a_tier_is_the_mean_of_its_clients_models(update, among):
    """One tier only: Σ n_k (w_base + Δ_k) / Σ n_k, each from the version it started from."""
    past = {10: (10.0, 0.0, 0.0), 7: (0.0, 20.0, 4.0)}
    view = among({"a": 0.0, "b": 0.0}, params=(10.0, 0.0, 0.0), past=past)
    arrivals = [update("a", 0, [2.0, 0.0, 0.0], 30), update("b", 3, [0.0, 4.0, 0.0], 10)]
    fedat = FedAT()
    result = fedat.apply(arrivals, fedat.init(), view)
    # 3/4 * (12, 0, 0) + 1/4 * (0, 24, 4)
    assert weights_after(result, view) == [9.0, 6.0, 1.0]
    assert result.state["rounds"] == [1, 0]


def test_the_formula_over_several_rounds_with_a_silent_tier(update, among):
    """Worked out by hand, M = 2: w = (T_2 · w_tier1 + T_1 · w_tier2) / (T_1 + T_2)."""
    start = (8.0, 8.0, 8.0)
    fedat = FedAT()
    view = among(TWO, params=start, past={10: start})
    # Round 1: the fast tier has (12, 8, 8). T = (1, 0): it weighs 0, silent w_0 weighs 1.
    first = fedat.apply([update("a", 0, [4.0, 0.0, 0.0])], fedat.init(), view)
    assert weights_after(first, view) == [8.0, 8.0, 8.0]
    assert first.state["models"]["0"]["w"].tolist() == [12.0, 8.0, 8.0]
    # Round 2: the slow tier has (8, 12, 8). T = (1, 1): the mean with the fast tier's
    # model of before, which is silent now.
    second = fedat.apply([update("z", 0, [0.0, 4.0, 0.0])], first.state, view)
    assert weights_after(second, view) == [10.0, 10.0, 8.0]
    # Rounds 3 and 4: the fast tier again. T = (3, 1): it weighs 1/4, the slow tier 3/4.
    third = fedat.apply([update("b", 0, [0.0, 0.0, 4.0])], second.state, view)
    fourth = fedat.apply([update("b", 0, [0.0, 0.0, 8.0])], third.state, view)
    assert fourth.state["rounds"] == [3, 1]
    # 1/4 * (8, 8, 16) + 3/4 * (8, 12, 8)
    assert weights_after(fourth, view) == [8.0, 11.0, 10.0]


def test_with_three_tiers_the_middle_one_has_its_own_count(update, among):
    view = among({"a": 0.0, "m": 3.0, "z": 9.0}, past={10: (0.0, 0.0, 0.0)})
    fedat = FedAT(bounds=(0, 5))
    state = {**fedat.init(), "rounds": [5, 2, 1]}
    arrivals = [
        update("a", 0, [9.0, 0.0, 0.0]),
        update("m", 0, [0.0, 9.0, 0.0]),
        update("z", 0, [0.0, 0.0, 9.0]),
    ]
    result = fedat.apply(arrivals, state, view)
    # T = (6, 3, 2) now, all in one round; tier m gets T of tier 4 − m, of 11.
    assert weights_after(result, view) == pytest.approx([18 / 11, 27 / 11, 54 / 11], rel=1e-15)


def test_tiers_without_clients_do_not_exist(update, among):
    """Bounds for four tiers, clients in the first and the last: these are each other's opposite."""
    fedat = FedAT(bounds=(0, 5, 9))
    view = among({"a": 0.0, "z": 99.0}, past={10: (0.0, 0.0, 0.0)})
    state = {**fedat.init(), "rounds": [2, 50, 50, 0]}
    arrivals = [update("a", 0, [4.0, 0.0, 0.0]), update("z", 0, [0.0, 4.0, 0.0])]
    result = fedat.apply(arrivals, state, view)
    assert weights_after(result, view) == [1.0, 3.0, 0.0]


def test_weighed_by_clients_the_sizes_are_those_of_the_registration(update, among):
    clients = {f"fast-{i}": 0.0 for i in range(3)} | {"slow": 60.0}
    view = among(clients, params=(8.0, 8.0, 8.0), past={10: (8.0, 8.0, 8.0)})
    fedat = FedAT(weighing="clients")
    result = fedat.apply([update("fast-0", 0, [4.0, 0.0, 0.0])], fedat.init(), view)
    # 3/4 of the fast tier's (12, 8, 8), 1/4 of the silent slow tier's w_0
    assert weights_after(result, view) == [11.0, 8.0, 8.0]


def test_a_tier_that_comes_up_later_begins_with_the_weights_of_then(update, among):
    fedat = FedAT(weighing="clients")
    before = among({"a": 0.0}, params=(0.0, 0.0, 0.0), past={10: (0.0, 0.0, 0.0)})
    state = fedat.apply([update("a", 0, [4.0, 0.0, 0.0])], fedat.init(), before).state
    now = among({"a": 0.0, "z": 9.0}, params=(4.0, 0.0, 0.0), past={10: (4.0, 0.0, 0.0)})
    result = fedat.apply([update("a", 0, [2.0, 0.0, 0.0])], state, now)
    assert weights_after(result, now) == [5.0, 0.0, 0.0]  # the mean of 6 and 4


def test_an_update_whose_base_is_gone_is_added_to_the_current_weights(update, among):
    view = among({"a": 0.0}, params=(10.0, 0.0, 0.0))
    fedat = FedAT()
    result = fedat.apply([update("a", 3, [1.0, 1.0, 1.0])], fedat.init(), view)
    assert weights_after(result, view) == [11.0, 1.0, 1.0]
    (note,) = result.notes
    assert (note.kind, note.client_id, note.base_version) == ("fallback", "a", 7)


def test_a_model_that_is_not_finite_does_not_stay_in_a_tier(update, among):
    big = torch.finfo(torch.float64).max
    view = among({"a": 0.0}, params=(big, 0.0, 0.0), past={10: (big, 0.0, 0.0)})
    fedat = FedAT()
    result = fedat.apply([update("a", 0, [big, 0.0, 0.0])], fedat.init(), view)
    assert result.delta is None
    assert result.state["rounds"] == [0, 0]
    assert result.state["models"]["0"]["w"].tolist() == [big, 0.0, 0.0]
    assert [note.kind for note in result.notes] == ["dropped"]


def test_no_arrivals_no_change(update, among):
    fedat = FedAT()
    view = among(TWO, past={10: (0.0, 0.0, 0.0)})
    state = fedat.apply([update("a", 0, [4.0, 0.0, 0.0])], fedat.init(), view).state
    for arrivals in ([], [update("a", 0, [1.0] * 3, 5, 0.0)]):
        result = fedat.apply(arrivals, state, view)
        assert (result.delta, result.state["rounds"]) == (None, [1, 0])


def test_the_state_is_passed_on_and_not_changed(update, among):
    fedat = FedAT()
    view = among(TWO, past={10: (0.0, 0.0, 0.0)})
    state = fedat.apply([update("a", 0, [4.0, 0.0, 0.0])], fedat.init(), view).state
    before = copy.deepcopy(state)
    fedat.apply([update("a", 0, [1.0] * 3), update("z", 0, [2.0] * 3)], state, view)
    assert (state["rounds"], state["models"].keys()) == (
        before["rounds"],
        before["models"].keys(),
    )
    for tier, model in state["models"].items():
        assert torch.equal(model["w"], before["models"][tier]["w"])


def test_an_engine_that_registers_nobody_is_told_so():
    server = us.Server(torch.nn.Linear(2, 1), method="fedat")
    with pytest.raises(ConfigError, match=r"fedat: all clients should be registered.*register"):
        server.step()
    server.register("a")
    assert server.step().version == 1


@pytest.mark.parametrize("settings", [{"bounds": (5, 2)}, {"bounds": ()}, {"weighing": "uniform"}])
def test_refuses_settings_that_are_wrong(settings):
    with pytest.raises(ConfigError, match="fedat"):
        FedAT(**settings)
