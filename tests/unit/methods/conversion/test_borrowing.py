"""Which client lends its surrogate to another's first fit."""

import torch

from unstale.methods.conversion.borrowing import borrowed_for


def entry(value: float, *deltas: tuple[float, float], seen: int = 9, surrogate: bool = True):
    """An entry whose surrogate is told by its value, with past updates, oldest first."""
    past = [{"version": v, "delta": {"w": torch.tensor(d)}} for v, d in enumerate(deltas)]
    found = {"seen": seen, "past": past}
    return found | ({"x": torch.full((2, 3), value), "y_logits": torch.zeros(2, 4)}
                    if surrogate else {})  # fmt: skip


DELTA = {"w": torch.tensor([1.0, 0.0])}


def lender(clients, **most) -> float | None:
    found = borrowed_for("me", DELTA, clients, **most)
    return None if found is None else float(found.x[0, 0])


def test_the_most_similar_client_lends_whatever_the_size_of_its_update():
    clients = {"a": entry(1.0, (1.0, 1.0)), "b": entry(2.0, (0.01, 0.001)), "c": entry(3.0, (9, 9))}
    assert lender(clients) == 2.0


def test_its_newest_update_counts():
    clients = {
        "a": entry(1.0, (1.0, 0.0), (0.0, 1.0)),
        "b": entry(2.0, (0.0, 1.0), (1.0, 0.2)),
    }
    assert lender(clients) == 2.0


def test_a_client_does_not_borrow_from_itself():
    assert lender({"me": entry(1.0, (1.0, 0.0)), "a": entry(2.0, (1.0, 1.0))}) == 2.0


def test_nobody_lends_without_surrogate_past_or_similarity():
    assert lender({}) is None
    assert lender({"a": entry(1.0, (1.0, 0.0), surrogate=False)}) is None
    assert lender({"a": entry(1.0)}) is None  # as with a history of 1
    assert lender({"a": entry(1.0, (-1.0, 0.0)), "b": entry(2.0, (0.0, 1.0))}) is None
    assert lender({"a": entry(1.0, (float("nan"), 0.0))}) is None


def test_an_absurd_update_beside_a_similar_one_does_not_stop_the_loan():
    clients = {"a": entry(1.0, (float("nan"), 0.0)), "b": entry(2.0, (1.0, 0.1))}
    assert lender(clients) == 2.0
    assert lender(dict(reversed(clients.items()))) == 2.0


def test_only_those_heard_of_last_are_compared():
    clients = {"a": entry(1.0, (1.0, 0.0), seen=3), "b": entry(2.0, (1.0, 1.0), seen=5)}
    assert lender(clients) == 1.0
    assert lender(clients, most=1) == 2.0


def test_of_equally_similar_clients_the_first_by_name_lends():
    clients = {"b": entry(2.0, (1.0, 0.0)), "a": entry(1.0, (1.0, 0.0))}
    assert lender(clients) == 1.0
