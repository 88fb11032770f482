import json

import pytest

from unstale.errors import RunError
from unstale.run_folder.tuning import Try, TunedMethod, TuningRecord, read_tuning, write_tuning
from unstale.run_folder.tuning_words import seeds_in_words, settings_in_words, value_in_words

RECORD = TuningRecord(
    criterion="affected_mean",
    says="in words",
    seeds=(0, 3),
    budget=3,
    methods={
        "taylor": TunedMethod(
            name="first_order",
            candidates={"lam": [1, 5, 9, 12]},
            size=4,
            tries=(
                Try({"lam": 1}, 0.5, {"accuracy": 0.5}, {0: {"accuracy": 0.25}, 3: {}}),
                Try({"lam": 5}, None, {"accuracy": None}, {}, "diverged: in round 3"),
                Try({"lam": 9}),
            ),
            chosen=0,
        )
    },
    config={"rounds": 7},
    environment={"commit": "abc"},
    finished=True,
    elsewhere=("local.lr",),
)


def test_to_the_file_and_back(tmp_path):
    write_tuning(tmp_path / "tuning.json", RECORD)
    assert read_tuning(tmp_path / "tuning.json") == RECORD
    assert read_tuning(tmp_path / "other.json") is None


def test_the_summary_has_what_was_tried_and_chosen():
    assert RECORD.summary()["methods"]["taylor"] == {
        "chosen": {"lam": 1},
        "score": 0.5,
        "candidates": 4,
        "tried": [
            {"settings": {"lam": 1}, "score": 0.5, "fault": ""},
            {"settings": {"lam": 5}, "score": None, "fault": "diverged: in round 3"},
            {"settings": {"lam": 9}, "score": None, "fault": ""},
        ],
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format should be 1. Found 2"),
        ({"seeds": [-1]}, "seeds should be a whole number"),
        ({"methods": []}, "methods should be an object"),
        ({"methods": {"a": {"tries": {}}}}, "tries should be an array"),
        ({"methods": {"a": {"tries": [], "chosen": 0}}}, "chosen should be below 0"),
        ({"methods": {"a": {"tries": [{"score": "x"}]}}}, "score should be a number"),
        ({"methods": {"a": {"tries": [{"per_seed": [5]}]}}}, "per_seed should be an object"),
        ({"elsewhere": 5}, "elsewhere should be an array"),
    ],
)
def test_a_damaged_record_is_an_error_that_names_the_file(change, said, tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({**RECORD.to_json(), **change}))
    with pytest.raises(RunError) as caught:
        read_tuning(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_half_a_file(tmp_path):
    (tmp_path / "tuning.json").write_text('{"format": 1, "me')
    with pytest.raises(RunError, match="should be the record of a tuning"):
        read_tuning(tmp_path / "tuning.json")


def test_words():
    assert settings_in_words({"bounds": [0, 60], "a": True}) == "bounds = [0, 60], a = true"
    assert settings_in_words(None) == "its own settings"
    assert value_in_words(1e9) == "1e+09"
    assert (seeds_in_words([3]), seeds_in_words([0, 1])) == ("seed 3", "seeds 0, 1")
