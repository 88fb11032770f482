"""Hugging Face's data sets and Flower's partitions, with the real libraries, offline."""

import json

import numpy as np
import pytest
import torch

import unstale as us
from unstale import data
from unstale.errors import DataError, UnknownNameError

datasets = pytest.importorskip("datasets")
partitioners = pytest.importorskip("flwr_datasets.partitioner")


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("flwr_datasets.federated_dataset.event", lambda *args: None)


def part(samples, seed=0):
    """Numbers whose first place says the class, of persons 10, 11 and 12."""
    rng = np.random.default_rng(seed)
    label = np.arange(samples) % 3
    x = rng.random((samples, 2, 4)).round(3)
    x[:, 0, 0] = label / 4
    features = datasets.Features(
        {
            "signal": datasets.Array2D((2, 4), "float32"),
            "activity": datasets.ClassLabel(names=["walk", "sit", "lie"]),
            "person": datasets.Value("int64"),
        }
    )
    rows = {"signal": x, "activity": label, "person": 10 + np.arange(samples) // 4 % 3}
    return datasets.Dataset.from_dict(rows, features=features)


def test_named_columns():
    train, test = part(12), part(6, seed=1)
    found = data.from_huggingface(
        train, test, inputs="signal", label="activity", client="person", name="motion"
    )
    assert (found.name, found.classes) == ("motion", ("walk", "sit", "lie"))
    assert found.input_shape == (2, 4)
    assert torch.equal(found.x_train[:, 0, 0], found.y_train / 4)
    assert found.users_train.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(found.y_test) == 6


def test_a_dataset_dict_finds_its_columns():
    both = datasets.DatasetDict(
        {"train": part(12).remove_columns("person"), "test": part(6).remove_columns("person")}
    )
    found = data.as_dataset(both)
    assert found.input_shape == (2, 4)
    assert found.users_train is None


def test_images_become_channels_first():
    grey = [np.full((3, 5), 51 * i, dtype=np.uint8) for i in range(4)]
    colour = [np.zeros((3, 5, 3), dtype=np.uint8) for _ in range(4)]
    for images, shape in ((grey, (1, 3, 5)), (colour, (3, 3, 5))):
        features = datasets.Features(
            {"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
        )
        rows = datasets.Dataset.from_dict({"img": images, "label": [0, 1, 0, 1]}, features=features)
        found = data.from_huggingface(rows, rows)
        assert found.input_shape == shape
        assert (found.low, found.high) == (0.0, 1.0)
    assert data.from_huggingface(rows, rows).x_train.max() == 0


def test_several_columns_are_put_side_by_side():
    rows = datasets.Dataset.from_dict(
        {"age": [0.1, 0.2], "height": [0.3, 0.4], "label": ["no", "yes"], "id": ["x", "y"]}
    )
    found = data.from_huggingface(rows, rows, inputs=["age", "height"], client="id")
    assert found.x_train.tolist() == [pytest.approx([0.1, 0.3]), pytest.approx([0.2, 0.4])]
    assert found.classes == ("no", "yes")


def test_wrong_columns():
    rows = part(6)
    with pytest.raises(DataError, match=r"inputs='…'. Columns are: signal, activity, person"):
        data.from_huggingface(rows, rows)
    with pytest.raises(UnknownNameError, match="Did you mean 'signal'"):
        data.from_huggingface(rows, rows, inputs="signals")
    with pytest.raises(DataError, match="test part"):
        data.from_huggingface(rows, inputs="signal")
    texts = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    with pytest.raises(DataError, match="Found texts in column 'text'"):
        data.from_huggingface(texts, texts)
    with pytest.raises(UnknownNameError, match="train part"):
        data.from_huggingface(datasets.DatasetDict({"all": rows}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: partitioners.IidPartitioner(num_partitions=5),
        lambda: partitioners.DirichletPartitioner(
            num_partitions=4, partition_by="activity", alpha=0.5, min_partition_size=2, seed=1
        ),
        lambda: partitioners.PathologicalPartitioner(
            num_partitions=3, partition_by="activity", num_classes_per_partition=1
        ),
        lambda: partitioners.NaturalIdPartitioner(partition_by="person"),
    ],
    ids=["iid", "dirichlet", "pathological", "natural"],
)
def test_any_partitioner(make):
    rows = part(48)
    partitioner = make()
    partitioner.dataset = rows
    found = data.from_flower(partitioner, part(6), inputs="signal", label="activity")
    for i in range(partitioner.num_partitions):
        held = partitioner.load_partition(i)
        mine = found.users_train == i
        assert found.y_train[mine].tolist() == held["activity"][:]
        assert np.allclose(found.x_train[mine], np.array(held["signal"][:]))
    assert int(found.users_train.max()) + 1 == partitioner.num_partitions


def test_pairs_need_no_names_where_columns_are_clear():
    rows, test = (part(n).remove_columns("person") for n in (24, 6))
    plain = data.as_dataset((rows, test))
    assert plain.users_train is None
    partitioner = partitioners.IidPartitioner(num_partitions=3)
    partitioner.dataset = rows
    found = data.as_dataset((partitioner, test))
    assert found.users_train.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert torch.equal(found.x_test, plain.x_test)


def test_a_partition_of_flower_is_simulated(tmp_path):
    partitioner = partitioners.DirichletPartitioner(
        num_partitions=4, partition_by="activity", alpha=0.5, min_partition_size=3, seed=1
    )
    rows = part(48).remove_columns("person")
    partitioner.dataset = rows
    found = us.simulate(
        lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)),
        (partitioner, rows),
        slow={0: 2},
        methods=["unweighted", "drop"],
        rounds=4,
        out=tmp_path / "run",
        progress=False,
    )
    scenario = json.loads((tmp_path / "run" / "scenario" / "seed-0.json").read_text())
    sizes = [len(partitioner.load_partition(i)) for i in range(4)]
    assert [client["examples"] for client in scenario["clients"]] == sizes
    assert [line.stale for line in found.rounds("unweighted")] == [0, 0, 1, 0]


def test_a_federated_dataset(tmp_path):
    flwr_datasets = pytest.importorskip("flwr_datasets")
    part(24).remove_columns("person").to_parquet(tmp_path / "train.parquet")
    part(6, seed=1).remove_columns("person").to_parquet(tmp_path / "test.parquet")
    federated = flwr_datasets.FederatedDataset(
        dataset=str(tmp_path), partitioners={"train": 4}, cache_dir=str(tmp_path / "cache")
    )
    found = data.as_dataset(federated)
    assert found.classes == ("walk", "sit", "lie")
    assert [int((found.users_train == i).sum()) for i in range(4)] == [6, 6, 6, 6]
    assert (
        found.y_train[found.users_train == 2].tolist() == federated.load_partition(2)["activity"][:]
    )
    with pytest.raises(UnknownNameError, match="partitioned split"):
        data.from_flower(federated, split="tran")
    with pytest.raises(DataError, match="the split 'validation'"):
        data.from_flower(federated, "validation")


def test_wrong_sources():
    empty = partitioners.IidPartitioner(num_partitions=2)
    with pytest.raises(DataError, match=r"Set `partitioner\.dataset"):
        data.from_flower(empty, part(6))
    empty.dataset = part(6)
    with pytest.raises(DataError, match="Pass the test part"):
        data.from_flower(empty)
    with pytest.raises(DataError, match="Found int"):
        data.from_flower(5, part(6))
