"""Whose surrogate a client's first fit may begin from."""

import torch

from unstale.methods.conversion.borrowing import borrowed_for
from unstale.updates import Update

RIGHT, UP = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


def entry(delta, mark):
    past = [{"version": 0, "delta": {"w": -delta}}, {"version": 5, "delta": {"w": delta}}]
    return {"past": past, "x": torch.full((2, 3), float(mark)), "y_logits": torch.zeros(2, 4)}


def asked(delta, clients):
    return borrowed_for(Update("new", 7, {"w": delta}, 40), clients)


def test_the_most_similar_client_lends():
    clients = {"a": entry(UP, 1), "b": entry(RIGHT + 0.2 * UP, 2), "c": entry(RIGHT + UP, 3)}
    assert float(asked(RIGHT, clients).x[0, 0]) == 2


def test_nobody_lends_who_sent_something_else():
    assert asked(RIGHT, {"a": entry(UP, 1), "b": entry(-RIGHT, 2)}) is None


def test_nobody_lends_without_a_surrogate_or_an_update_or_to_itself():
    without = {key: value for key, value in entry(RIGHT, 1).items() if key == "past"}
    forgotten = {**entry(RIGHT, 1), "past": []}
    assert asked(RIGHT, {"a": without, "b": forgotten, "new": entry(RIGHT, 3)}) is None
