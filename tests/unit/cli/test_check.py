import json

import pytest

QUICK = ("check", "--staleness", "3", "--conversions", "2", "--set", "local.epochs=1")


def test_the_table_and_the_verdict(unstale, tmp_path):
    result = unstale(*QUICK)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("quickstart: 20 clients, 3 versions late, on cpu")
    assert "in a run, converted" in result.out  # in one line
    assert "\nConversion " in result.out
    assert "3 versions late, an update is" in result.out
    assert list(tmp_path.iterdir()) == []


def test_json(unstale):
    result = unstale(*QUICK, "--seed", "3", "--clients", "4", "--random", "--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert found["verdict"] in (
        "helps", "helps a little", "does not help", "harms", "does not work"
    )  # fmt: skip
    assert (found["clients"], found["staleness"], found["random_data"]) == (4, 3, True)
    assert [c["arrival"] for c in found["conversions"]] == [0, 1]
    assert set(found["in_run"]) >= {"stale", "converted", "ratio", "seconds", "failed", "memory"}


def test_random_data_of_a_shape(unstale, tmp_path):
    missing = (*QUICK, "--set", "data.name=mnist", "--data", tmp_path, "--set", "model.name=mlp")
    result = unstale(*missing)
    assert result.code == 1
    assert "unstale data fetch mnist" in result.err
    assert result.err.strip().endswith("--random --shape 1,28,28 --classes 10.")
    result = unstale(*missing, "--random", "--shape", "1,4,4", "--classes", "10")
    assert result.code == 0, result.err
    assert "random data" in result.out


def test_an_experiment_of_ones_own(unstale, tmp_path):
    (tmp_path / "my.toml").write_text(
        'rounds = 1\n[data]\nname = "digits"\n[model]\nname = "mlp"\nhidden = [4]\n'
        '[partition]\nkind = "one_class"\nclients = 10\nsamples = 10\n'
        "[latency]\nclients = 1\nrounds = 2\n"
        '[[methods]]\nname = "convert"\nlabel = "strict"\ninversion.max_loss = 1e-9\n'
        "inversion.restart_loss = 0.0\n"
    )
    result = unstale("check", "my.toml", "--method", "strict", "--conversions", "2")
    assert result.code == 0, result.err
    assert result.out.startswith("my: 10 clients, 2 versions late")
    assert "Conversion does not work." in result.out
    assert "2 of 2 conversions failed: no fit" in result.out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("nope.toml",), ["nope.toml"]),
        (("--set", "local.lrr=1"), ["Did you mean 'lr'"]),
        (("--method", "weighted"), ["should be a `convert`", "arrivals, convert"]),
        (("--method", "nope"), ["The method to check should be one of"]),
        (("--conversions", "1"), ["`conversions` should be at least 2"]),
        (("--staleness", "0"), ["`staleness` should be at least 1"]),
        (("--clients", "0"), ["`clients` should be a positive integer"]),
        (("--device", "nope"), ["The device should be one that torch has here"]),
        (("--random", "--shape", "1,x", "--classes", "3"), ["--shape should be whole numbers"]),
        (("--random", "--shape", "1,8,8"), ["should be given together"]),
        (("--shape", "1,8,8", "--classes", "3"), ["and with --random"]),
        (("--random", "--shape", "0", "--classes", "3"), ["InputSpec: `shape`"]),
        (("--set", "partition.samples=100000"), ["100000"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_input(options, parts, unstale):
    result = unstale("check", *options)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    (line,) = result.err.strip().splitlines()
    assert line.startswith("Error: ")
    for part in parts:
        assert part in line
