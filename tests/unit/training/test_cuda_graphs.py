"""The owner of recordings: what it keeps, when it records, and what it tells apart."""

import gc
import logging
import threading
import weakref
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from unstale.training.cuda_graphs import GraphCache
from unstale.training.graph_recorder import recording_by


@dataclass(frozen=True)
class Inputs:
    weights: dict[str, Tensor]
    x: Tensor
    batches: tuple[Tensor, ...] = ()
    mask: Tensor | None = None


def inputs(value: float = 1.0, size: int = 3, name: str = "w") -> Inputs:
    return Inputs({name: torch.full((size,), value)}, torch.arange(float(size)))


def product(given: Inputs) -> list[Tensor]:
    (weight,) = given.weights.values()
    return [weight * given.x, weight + given.x]


@pytest.fixture
def model():
    return nn.Linear(2, 2)


@pytest.fixture
def cache(tape):
    with recording_by(tape):
        yield GraphCache(kept_per_model=2)


def test_the_stand_in_can_fail(tape):
    """A function that hides what it reads: the recording is of no use once that is freed."""
    x, hidden = torch.ones(2), [torch.ones(2)]
    replay, (found,) = tape.record(lambda: None, lambda: [x * hidden[0]], x.device, None)
    hidden[0].fill_(3.0)
    replay()
    assert found.tolist() == [3.0, 3.0]
    hidden.clear()
    with pytest.raises(RuntimeError):
        replay()


def test_recorded_when_a_layout_comes_up_again(cache, tape, model):
    for number, recorded in ((1.0, 0), (2.0, 1), (5.0, 1)):
        found = cache.call(model, "key", product, inputs(number))
        assert tape.recorded == recorded
        assert found[0].tolist() == [0, number, 2 * number]
        assert found[1].tolist() == [number, number + 1, number + 2]


def test_results_of_one_call_outlive_the_next(cache, model):
    first, second, third = (cache.call(model, "", product, inputs(v))[0] for v in (1.0, 2.0, 3.0))
    assert [t.tolist()[1] for t in (first, second, third)] == [1, 2, 3]


def test_nothing_is_recorded_on_other_devices_or_by_none(tape, model):
    cache = GraphCache(kept_per_model=2)
    for recorder in (None, tape):
        tape.takes = lambda device: device.type == "cuda"
        with recording_by(recorder):
            for _ in range(3):
                cache.call(model, "", product, inputs())
            with cache.borrow(model, "", lambda given: None, inputs()) as lent:
                assert lent is None
    assert tape.recorded == 0
    assert cache.recordings(model) == []


def test_without_a_gpu_calls_are_eager(model):
    cache = GraphCache(kept_per_model=2)
    for _ in range(3):
        assert cache.call(model, "", product, inputs(2.0))[0].tolist() == [0, 2, 4]
    assert cache.recordings(model) == []


@pytest.mark.parametrize(
    "change",
    [
        {"key": "other"},
        {"size": 4},
        {"name": "v"},
        {"dtype": torch.float64},
        {"mode": False},
        {"frozen": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_differs_is_recorded_apart(cache, tape, model, change):
    def call(key="key", size=3, name="w", dtype=torch.float32, mode=True, frozen=False):
        model.train(mode)
        model.weight.requires_grad_(not frozen)
        given = inputs(2.0, size, name)
        given = replace(given, x=given.x.to(dtype))
        return cache.call(model, key, product, given)

    call(), call()
    assert tape.recorded == 1
    call(**change)
    assert tape.recorded == 1
    call(**change)
    assert tape.recorded == 2
    call()
    assert tape.recorded == 2


def test_the_least_recently_used_goes(cache, tape, model):
    def twice(key):
        for _ in range(2):
            cache.call(model, key, product, inputs())

    twice("a"), twice("b"), twice("a"), twice("c")  # `b` makes room
    assert (tape.recorded, len(cache.recordings(model))) == (3, 2)
    twice("a"), twice("c")
    assert tape.recorded == 3
    twice("b")
    assert tape.recorded == 4


def test_models_do_not_share_and_take_their_recordings_with_them(cache, tape):
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)

    def uses(model):
        return lambda given: [given.x * model.weight.detach().sum()]

    for model in (first, second):
        for _ in range(2):
            cache.call(model, "", uses(model), inputs())
    assert tape.recorded == 2
    (recording,) = cache.recordings(first)
    gone, freed = weakref.ref(first), weakref.ref(recording)
    del first, model, recording
    gc.collect()
    assert gone() is None
    assert freed() is None


def test_every_tensor_that_is_read_is_kept(cache, model):
    """Also what reaches the function by another way than its inputs."""
    hidden = torch.full((3,), 10.0)

    def function(held):
        return lambda given: [given.x * held + given.weights["w"]]

    for _ in range(2):
        cache.call(model, "", function(hidden), inputs())
    (recording,) = cache.recordings(model)
    assert [t.tolist() for t in recording.others] == [[10.0] * 3]
    places = {t.untyped_storage().data_ptr() for t in recording.tensors()}
    assert hidden.untyped_storage().data_ptr() in places
    other = function(torch.full((3,), 10.0))
    del hidden
    for value in (1.0, 2.0):
        gc.collect()
        assert cache.call(model, "", other, inputs(value))[0].tolist() == [
            value + 10 * i for i in (0, 1, 2)
        ]


def test_what_was_cached_on_the_way_is_kept_too(cache, model):
    cached = {}

    def function(given):
        if "scale" not in cached:
            cached["scale"] = torch.full((3,), 4.0)
        return [given.x * cached["scale"]]

    for _ in range(2):
        cache.call(model, "", function, inputs())
    cached.clear()
    gc.collect()
    assert cache.call(model, "", function, inputs())[0].tolist() == [0, 4, 8]


def test_inputs_are_copied_and_left_alone(cache, model):
    given = Inputs({"w": torch.ones(3)}, torch.ones(3), (torch.tensor([0, 2]),), torch.ones(3))

    def function(own):
        own.x.add_(own.weights["w"] * own.mask)
        return [own.x[own.batches[0]]]

    first = cache.call(model, "", function, replace(given, x=given.x.clone()))
    for batch in ([0, 2], [1, 1]):
        now = replace(given, batches=(torch.tensor(batch),))
        assert torch.equal(cache.call(model, "", function, now)[0], first[0])
        assert now.x.tolist() == [1, 1, 1]
    (recording,) = cache.recordings(model)
    mine = {t.data_ptr() for t in (given.weights["w"], given.x, *given.batches, given.mask)}
    assert not mine & {t.data_ptr() for t in recording.tensors()}


def count_up(given: Inputs) -> None:
    given.x.add_(given.weights["w"])


def test_a_call_in_place_is_recorded_at_once_and_leaves_no_trace(cache, tape, model):
    for start in (1.0, 2.0):
        given = inputs(start)
        with cache.borrow(model, "", count_up, given) as lent:
            assert lent.inputs.x.tolist() == given.x.tolist() == [0, 1, 2]
            for _ in range(3):
                lent.replay()
            assert lent.inputs.x.tolist() == [3 * start, 1 + 3 * start, 2 + 3 * start]
        assert given.x.tolist() == [0, 1, 2]
    assert tape.recorded == 1


def test_one_borrower_at_a_time(cache, model):
    with cache.borrow(model, "", count_up, inputs()) as first:
        with cache.borrow(model, "", count_up, inputs()) as second:
            assert second is None
        first.replay()
        assert first.inputs.x.tolist() == [1, 2, 3]
    with cache.borrow(model, "", count_up, inputs()) as third:
        assert third is first


def test_a_failure_inside_the_block_gives_the_recording_back(cache, model):
    def fail():
        with cache.borrow(model, "", count_up, inputs()):
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    with cache.borrow(model, "", count_up, inputs()) as lent:
        assert lent is not None


def test_what_cannot_be_recorded_is_told_once_and_run_eagerly(cache, tape, model, caplog):
    def refuse(*_):
        raise RuntimeError("a synchronisation")

    tape.record = refuse
    given = inputs(3.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert cache.call(model, "", product, given)[0].tolist() == [0, 3, 6]
            with cache.borrow(model, "in place", count_up, given) as lent:
                assert lent is None
    assert [r.message for r in caplog.records] == [
        "No CUDA graph for this call, which will be slow: a synchronisation"
    ] * 2
    assert given.x.tolist() == [0, 1, 2]


def test_other_threads_record_as_usual(cache, tape, model):
    """A block that runs eagerly says nothing about other threads."""
    seen = []

    def elsewhere():
        with recording_by(tape), cache.borrow(model, "", count_up, inputs()) as lent:
            seen.append(lent)

    with recording_by(None):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen[0] is not None
