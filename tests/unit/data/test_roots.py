import os
from pathlib import Path

import pytest

from unstale import data
from unstale.data.roots import locate
from unstale.errors import DataError


def _unused(files: object) -> data.Dataset:
    raise AssertionError("located, not read")


TWO = data.Source(
    "two formats",
    (
        data.Layout(_unused, {"a.bin": "", "b.bin": ""}, ("two/raw", "two")),
        data.Layout(_unused, {"a.txt": ""}, ("two",)),
    ),
    obtain="Write them by hand.",
)


def _put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_an_explicit_root_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALE_DATA", "/elsewhere")
    assert data.data_roots("/given") == [Path("/given")]


def test_the_environment_variable_may_name_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALE_DATA", os.pathsep.join(["/one", "", "~/two"]))
    assert data.data_roots() == [Path("/one"), Path.home() / "two"]


def test_the_cache_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSTALE_DATA", "")
    assert data.data_roots() == [tmp_path / "cache" / "unstale"]
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        monkeypatch.setenv("HOME", "/home/someone")
        assert data.data_roots() == [Path("/home/someone/.cache/unstale")]


def test_an_unknown_home_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="home directory"):
        data.data_roots("~nobody-of-this-name/data")


def test_locate_takes_the_first_complete_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    monkeypatch.setenv("UNSTALE_DATA", os.pathsep.join([str(one), str(two)]))
    _put(two / "two/a.bin", two / "two/b.bin")
    assert locate("t", TWO).folder == two / "two"
    _put(one / "two/a.bin")  # incomplete: does not count
    assert locate("t", TWO).folder == two / "two"
    _put(one / "two/a.txt")  # another format, in an earlier root
    found = locate("t", TWO)
    assert found.layout is TWO.layouts[1]
    assert found.files == {"a.txt": one / "two/a.txt"}
    _put(one / "two/b.bin", one / "two/raw/a.bin", one / "two/raw/b.bin")
    assert locate("t", TWO).folder == one / "two/raw"


def test_a_missing_set_says_what_where_and_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, nowhere = tmp_path / "here", tmp_path / "nowhere"
    _put(here / "two/raw/a.bin")
    monkeypatch.setenv("UNSTALE_DATA", os.pathsep.join([str(here), str(nowhere)]))
    with pytest.raises(DataError) as error:
        locate("pair", TWO)
    message = str(error.value)
    for part in (
        "'pair'",
        "a.bin, b.bin in two/raw | two",
        "a.txt in two",
        f"{here},",
        f"{nowhere} (no such folder)",
        f"{here / 'two/raw'} lacks b.bin",
        "Write them by hand.",
        f"Put a.bin, b.bin into {here / 'two/raw'} (or",
        "UNSTALE_DATA",
    ):
        assert part in message
    assert "\n" not in message
    assert message.startswith("Put a.bin"), "what to do comes first"


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "svhn"])
def test_what_can_be_fetched_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"`unstale data fetch {name}`") as error:
        data.load(name, tmp_path)
    assert str(tmp_path) in str(error.value)
    assert str(error.value).startswith(f"Run `unstale data fetch {name}`")


@pytest.mark.parametrize("name", ["hapt", "extrasensory", "disaster"])
def test_what_cannot_be_fetched_says_how_it_is_made(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"numpy\.savez") as error:
        data.load(name, tmp_path)
    assert "unstale data fetch" not in str(error.value)
