"""What a simulation keeps between rounds: no more than it needs, and all of it in a checkpoint."""

import pytest
from engine_rounds import CONVERT, MINI, SLOW, assert_identical, away, run, trajectory

from unstale.methods import method
from unstale.server.checkpoint import Checkpoints
from unstale.server.history import HistorySpec
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import ConstantLatency, UniformLatency

# --- memory ------------------------------------------------------------------------------


def test_memory_does_not_grow_with_rounds(simulate):
    simulation = simulate(
        clients=2, latency=ConstantLatency(5, clients=(0,)), overlap=True, evaluate_every=1000
    )
    for _ in range(300):
        record = simulation.run_round()
        assert len(simulation.client_versions) <= 5
        assert record.history["versions"] <= 6
        assert len(simulation.jobs) <= 5
    assert simulation.lost == ()


def test_a_small_history_falls_back_and_clients_still_train_right(simulate):
    small = HistorySpec(max_versions=2)
    settings = {"latency": SLOW, "overlap": True}
    # The method cannot see the base any more, and says so.
    records = run(simulate("first_order", history=small, **settings), 8)
    assert [r["notes"].get("fallback", 0) for r in records] == [0, 0, 0, 2, 2, 2, 2, 2]
    assert all(r["history"]["versions"] <= 2 for r in records)
    # The clients hold their models themselves, so a method that needs no base is unharmed.
    capped = trajectory(simulate(history=small, **settings), 8)
    assert_identical(capped, trajectory(simulate(**settings), 8))


def test_models_on_devices_spill_where_the_history_says(simulate, tmp_path):
    folder = tmp_path / "spilled"
    simulation = simulate(
        latency=SLOW, overlap=True, history=HistorySpec(memory_bytes=0, folder=str(folder))
    )
    run(simulation, 4)
    kept = {path.parent for path in folder.glob("*/*.safetensors")}
    assert len(kept) == 2  # the server's versions, and those that clients hold


# --- save and load -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "overlap", "history"),
    [
        ("first_order", True, None),
        ("asyn_tiers", False, None),
        ("fedat", False, HistorySpec(memory_bytes=0)),
        ("w_pred", True, HistorySpec(memory_bytes=0)),
        ("first_order", False, HistorySpec(memory_bytes=0)),
        ("first_order", True, HistorySpec(max_versions=2, memory_bytes=0)),
        ("memory", False, None),
        (method("convert", **CONVERT), False, HistorySpec(memory_bytes=0)),
        (method("generator", iterations=2, hidden=8, noise=4), False, None),
        (method("dreams", iterations=2), True, None),
    ],
)
def test_restored_in_the_middle_goes_on_identically(simulate, tmp_path, history, overlap, name):
    def make():
        return simulate(
            name,
            latency=UniformLatency(low=0, high=5),
            overlap=overlap,
            history=history,
            local=MINI,
            availability=away(tmp_path, "5,4,6\n2,3,8\n"),
            cohort=SampledCohort(size=6),
        )

    undisturbed = make()
    wanted = run(undisturbed, 14)
    found, simulation = [], make()
    for stop in (1, 5, 6, 11):
        found += run(simulation, stop - len(found))
        checkpoints = Checkpoints(tmp_path / "checkpoints")
        checkpoints.write(*simulation.to_tree())
        simulation = make()
        simulation.restore(*Checkpoints(tmp_path / "checkpoints").read())
        assert simulation.round == stop
    found += run(simulation, 14 - len(found))
    assert found == wanted
    in_place = sum(len(line.get("stand_ins", ())) for line in wanted)
    assert (in_place > 0) == (getattr(name, "name", name) in ("memory", "convert"))
    assert_identical([simulation.server.params], [undisturbed.server.params])
    assert simulation.jobs == undisturbed.jobs
    assert simulation.lost == undisturbed.lost


def test_jobs_and_lost_work_are_saved(simulate, tmp_path):
    simulation = simulate(latency=SLOW, availability=away(tmp_path, "5,2,9\n"))
    run(simulation, 3)
    tree, versions = simulation.to_tree()
    assert tree["engine"]["jobs"] == [[3, 0, 0]]
    assert tree["engine"]["lost"] == [[3, 5, 0]]
    assert 0 in versions
    other = simulate(latency=SLOW, availability=away(tmp_path, "5,2,9\n"))
    other.restore(tree, versions)
    assert (other.jobs, other.lost) == (simulation.jobs, simulation.lost)
