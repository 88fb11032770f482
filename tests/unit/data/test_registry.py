from pathlib import Path

import pytest
import torch

from unstale import data
from unstale.errors import ConfigError, DataError, UnknownNameError

X, Y = torch.rand(4, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1])


def _coin(files: object) -> data.Dataset:
    return data.Dataset("coin", X, Y, X, Y, ("head", "tail"), 0.0, 1.0)


def test_all_of_the_paper_are_registered() -> None:
    assert data.names() == (
        "digits",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "svhn",
        "hapt",
        "extrasensory",
        "disaster",
        "blended_mnist",
        "grey_svhn",
    )


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'mnist'"):
        data.load("mnits")
    with pytest.raises(UnknownNameError):
        data.fetch("mnits")


def test_a_set_of_ones_own() -> None:
    source = data.Source("one's own", (data.Layout(_coin),))
    data.register("coin", source)
    assert data.names()[-1] == "coin"
    assert data.load("coin").x_train is X
    assert data.check_one("coin").status == "embedded"
    with pytest.raises(ConfigError, match="force=True"):
        data.register("coin", source)
    data.register("coin", source, force=True)
    with pytest.raises(ConfigError, match="empty"):
        data.register("", source)


def test_a_source_is_checked_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="layout"):
        data.Source("nothing", ())
    with pytest.raises(ConfigError, match="checksum of a"):
        data.Layout(_coin, {"a": "d41d8cd98f00b204e9800998ecf8427e"})
    with pytest.raises(ConfigError, match="folder"):
        data.Layout(_coin, {"a": ""}, ())
    with pytest.raises(ConfigError, match="checksum"):
        data.Download(("http://x/a",), "a", "")


def test_a_file_that_cannot_be_opened_is_an_error_of_ours(tmp_path: Path) -> None:
    def read(files: dict[str, Path]) -> data.Dataset:
        raise PermissionError(13, "Permission denied", str(files["a"]))

    (tmp_path / "a").touch()
    data.register("locked", data.Source("locked", (data.Layout(read, {"a": ""}),)))
    with pytest.raises(DataError, match=r"'locked'.*Permission denied"):
        data.load("locked", tmp_path)
