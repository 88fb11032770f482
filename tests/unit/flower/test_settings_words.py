"""The lines with which a run's log begins."""

from pathlib import Path

import pytest

import unstale as us
from unstale.flower import ClosePolicy, Cohort
from unstale.flower.settings_words import settings_in_words


def said(local=None, cohort=Cohort(), close=ClosePolicy(), folder=None, **server):  # noqa: B008
    settings = us.ServerSettings(local=local or us.LocalSpec(), **server)
    return list(settings_in_words(settings, cohort, close, folder))


@pytest.mark.parametrize(
    ("local", "words"),
    [
        (us.LocalSpec(lr=0.2, momentum=0.5),
         "1 epoch of full-batch sgd, learning rate 0.2, momentum 0.5"),
        (us.LocalSpec(steps=3, batch_size=32), "3 steps of sgd, learning rate 0.01, batches of 32"),
        (us.LocalSpec(steps=1, optimizer="adam", weight_decay=1e-4, prox=0.1),
         "1 step of full-batch adam, learning rate 0.01, weight decay 0.0001, prox 0.1"),
    ],
)  # fmt: skip
def test_the_recipe(local, words):
    assert said(local)[1] == f"Clients train, as the server assumes: {words}"


def test_a_server_optimizer_is_named_if_there_is_one():
    assert not any("optimizer" in line for line in said())
    assert "Server optimizer: FedAvgM(lr=1.0, momentum=0.9)" in said(optimizer="fedavgm")


def test_nodes_closing_and_folder():
    told = said(
        cohort=Cohort(fraction_train=0.25, min_available_nodes=8),
        close=ClosePolicy(min_replies=3),
        folder=Path("runs/a"),
    )
    assert told[2:] == [
        "Asked in a round: 25 % of the nodes, once 8 are connected",
        "A round closes when all fast nodes asked have answered and 3 replies are there",
        "Run folder: runs/a",
    ]
