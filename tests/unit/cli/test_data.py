import json

from unstale import data


def test_check_lists_every_data_set(unstale, tmp_path):
    result = unstale("data", "check", "--data", tmp_path / "[none]")
    assert result.code == 0
    for name in data.names():
        assert name in result.out
    assert "embedded" in result.out
    assert "missing" in result.out


def test_check_for_programs(unstale, tmp_path):
    result = unstale("data", "check", "--data", tmp_path / "[none]", "--json")
    found = {finding["name"]: finding for finding in json.loads(result.out)}
    assert found["digits"]["status"] == "embedded"
    assert found["mnist"]["status"] == "missing"
    assert found["mnist"]["where"].startswith(str(tmp_path / "[none]"))


def test_paths_are_shown_as_they_are(unstale, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert "/[none]/" in unstale("data", "check", "--data", "/[none]").out


def test_fetch_of_what_is_unknown(unstale):
    result = unstale("data", "fetch", "mnits")
    assert result.code == 2
    assert "Did you mean 'mnist'?" in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


def test_fetch(unstale, monkeypatch, tmp_path):
    def fetched(name, root, progress):
        progress(5, 10)
        progress(10, None)
        return tmp_path / name

    monkeypatch.setattr("unstale.data.fetch", fetched)
    result = unstale("data", "fetch", "mnist")
    assert (result.code, result.out) == (0, f"mnist is in {tmp_path / 'mnist'}\n")
