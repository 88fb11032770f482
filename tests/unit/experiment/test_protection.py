"""The tables [protection] and [storage] of an experiment, and what a run says of them."""

import base64
import json
import sys

import pytest

import unstale as us
from unstale.errors import ConfigError
from unstale.experiment import load_experiment, parse
from unstale.report import read_run
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.run_folder import keep
from unstale.run_folder.differences import differences
from unstale.run_folder.lines import Lines

pytestmark = pytest.mark.usefixtures("_clouds")

PRIVATE = {"clip": 0.5, "noise_multiplier": 4.0}


def summary_of(folder):
    return json.loads(folder.summary_path.read_text())


def test_the_tables_become_settings_and_come_back(table):
    before = parse(table).to_json()
    assert not {"protection", "storage"} & set(before), "runs of before are as they were"
    table["protection"] = {"sparsity": 0.95, "noise_variance": 1e-3}
    table["storage"] = {"checkpoints": "without_memory", "surrogates": True}
    config = parse(table)
    assert config.protection == us.Protection(sparsity=0.95, noise_variance=1e-3)
    assert config.storage == us.Storage(surrogates=True, checkpoints="without_memory")
    assert parse(config.to_json()) == config
    assert set(differences(before, config.to_json())) == {"protection", "storage"}


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("protection", {"sparsty": 0.9}, "Did you mean 'sparsity'"),
        ("protection", {"sparsity": 1}, r"\[protection\] Protection: `sparsity`"),
        ("protection", {"clip": "much"}, "`protection.clip` should be"),
        ("protection", {"noise_multiplier": 1.0}, "should come with `clip`"),
        ("storage", {"checkpoint": "plain"}, "Did you mean 'checkpoints'"),
        ("storage", {"checkpoints": "encrypted"}, r"\[storage\].*`key`"),
    ],
)
def test_wrong_tables(table, name, values, said):
    with pytest.raises(ConfigError, match=said):
        parse({**table, name: values})


def test_a_run_says_what_clients_did_and_what_it_cost(run_tiny, table):
    folder = run_tiny("a", table={**table, "protection": PRIVATE})
    privacy = summary_of(folder)["privacy"]
    assert privacy["protection"]["clip"] == 0.5
    assert privacy["delta"] == 1e-5
    for label in ("unweighted", "taylor"):
        sent = privacy["methods"][label]["updates"]
        lines = [Lines(folder.lines_path(label, seed)).read()[-1] for seed in (0, 1)]
        assert sent == max(line.most_sent for line in lines) <= 7
        wanted = us.spent(us.Protection(**PRIVATE), sent).epsilon
        assert privacy["methods"][label]["epsilon"] == wanted
    page = build_page(Context.of(read_run(folder.path)))
    assert "clipped to norm 0.5, noise of 4 times that norm" in page
    assert f"unweighted {privacy['methods']['unweighted']['epsilon']:.3g} after" in page
    assert privacy["assumed"] in page


def test_noise_without_clipping_promises_nothing(run_tiny, table):
    found = summary_of(run_tiny("a", table={**table, "protection": {"noise_variance": 1e-3}}))
    assert list(found["privacy"]) == ["protection"]
    assert "privacy" not in summary_of(run_tiny("b"))


def test_protected_runs_have_other_numbers_and_resume_to_the_same(run_tiny, table, recorder):
    table |= {"protection": PRIVATE, "seeds": [0]}
    whole = run_tiny("a", table=table)
    with pytest.raises(KeyboardInterrupt):
        run_tiny("b", table=table, progress=recorder(stop_after=9), checkpoint_seconds=0)
    again = run_tiny("b", table=table)
    assert again.summary_path.read_bytes() == whole.summary_path.read_bytes()
    plain = run_tiny("c", table={**table, "protection": {}})
    assert summary_of(plain)["methods"] != summary_of(whole)["methods"]


def test_a_missing_accountant_is_found_before_anything_runs(run_tiny, table, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"unstale\[privacy\]"):
        run_tiny("a", table={**table, "protection": PRIVATE})
    assert not (tmp_path / "a").exists()


@pytest.fixture
def sealed(table, monkeypatch):
    monkeypatch.setenv("THE_KEY", base64.b64encode(bytes(range(32))).decode())
    return {**table, "seeds": [0], "storage": {"checkpoints": "encrypted", "key": "env:THE_KEY"}}


def test_an_encrypted_run_resumes_with_its_key_alone(run_tiny, sealed, recorder, monkeypatch):
    whole = run_tiny("a", table=sealed)
    with pytest.raises(KeyboardInterrupt):
        run_tiny("b", table=sealed, progress=recorder(stop_after=5), checkpoint_seconds=0)
    monkeypatch.setenv("THE_KEY", base64.b64encode(bytes(32)).decode())
    with pytest.raises(ConfigError, match="the key that it was encrypted with"):
        run_tiny("b", table=sealed)
    monkeypatch.setenv("THE_KEY", base64.b64encode(bytes(range(32))).decode())
    seen = recorder()
    again = run_tiny("b", table=sealed, progress=seen)
    assert again.summary_path.read_bytes() == whole.summary_path.read_bytes()


def test_a_missing_key_is_found_before_anything_runs(run_tiny, sealed, monkeypatch, tmp_path):
    monkeypatch.delenv("THE_KEY")
    with pytest.raises(ConfigError, match="Found nothing there"):
        run_tiny("a", table=sealed)
    assert not (tmp_path / "a").exists()


def test_a_run_without_memory_resumes_and_says_so(run_tiny, table, recorder, caplog):
    few = {"name": "convert", "calibration": False, "stand_in": False}
    few["inversion"] = {"iterations": 4, "start": "grey", "max_loss": 9.0, "max_samples": 16}
    table |= {"methods": [few], "seeds": [0], "storage": {"checkpoints": "without_memory"}}
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", table=table, progress=recorder(stop_after=6), checkpoint_seconds=0)
    caplog.clear()
    folder = run_tiny("a", table=table)
    assert "convert begins anew" in caplog.text
    assert len(Lines(folder.lines_path("convert", 0)).read()) == 7


def test_a_key_file_is_relative_to_the_experiment_file(tmp_path):
    (tmp_path / "my.toml").write_text(
        'rounds = 1\nmethods = ["unweighted"]\n[data]\nname = "digits"\n[model]\nname = "mlp"\n'
        '[storage]\ncheckpoints = "encrypted"\nkey = "file:secret.key"\n'
    )
    config = load_experiment(tmp_path / "my.toml")
    assert config.storage.key == f"file:{tmp_path.resolve()}/secret.key"
    assert keep._without_paths(config.to_json())["storage"]["key"] == "file:secret.key"
