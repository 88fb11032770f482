import pytest

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment import load_experiment

TOML = """
rounds = 3
[data]
name = "digits"
[model]
name = "digits"
[[methods]]
name = "unweighted"
[[methods]]
name = "weighted"
label = "w1"
[[methods]]
name = "weighted"
label = "w2"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    return path


def test_sources(file, tmp_path, monkeypatch):
    assert load_experiment().name == "quickstart"
    assert load_experiment(file).name == "mine"
    assert load_experiment(str(file)) == load_experiment(file)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.toml").write_text(TOML)
    assert load_experiment(folder).name == "folder"
    assert load_experiment(folder / "config.toml").name == "folder"
    monkeypatch.chdir(folder)
    assert load_experiment(".").name == "folder"
    assert load_experiment("config.toml").name == "folder"


def test_a_name_in_the_file_counts_more(file):
    file.write_text('name = "other"\n' + TOML)
    assert load_experiment(file).name == "other"


def test_a_file_named_quickstart_counts_more(tmp_path, monkeypatch):
    (tmp_path / "quickstart").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    assert load_experiment("quickstart").rounds == 3


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="Could not read"):
        load_experiment(tmp_path / "nope.toml")
    with pytest.raises(ConfigError, match="Could not read"):
        load_experiment(tmp_path)  # a folder without config.toml
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="Could not read"):
        load_experiment(tmp_path / "binary.toml")
    (tmp_path / "bad.toml").write_text("rounds = \n")
    with pytest.raises(ConfigError, match=r"bad.toml should be valid TOML.*line 1"):
        load_experiment(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("override", "check"),
    [
        ("rounds=9", lambda c: c.rounds == 9),
        (" rounds = 9 ", lambda c: c.rounds == 9),
        ("local.lr=0.5", lambda c: c.local.lr == 0.5),
        ("local.lr=1", lambda c: c.local.lr == 1.0),
        ("overlap=true", lambda c: c.scenario.overlap is True),
        ("title=a = b", lambda c: c.title == "a = b"),
        ('title="quoted"', lambda c: c.title == "quoted"),
        ("title=", lambda c: c.title == ""),
        ("data.name=mnist", lambda c: c.data == "mnist"),
        ("seeds=[4, 5]", lambda c: c.seeds == (4, 5)),
        ("latency.kind=none", lambda c: type(c.scenario.latency).__name__ == "NoLatency"),
        ("methods.w2.a=0.125", lambda c: c.methods[2].settings == {"a": 0.125}),
        ("methods.1.a=0.125", lambda c: c.methods[1].settings == {"a": 0.125}),
        ("methods.unweighted.label=plain", lambda c: c.methods[0].label == "plain"),
        ('methods=["drop"]', lambda c: [m.name for m in c.methods] == ["drop"]),
    ],
)
def test_overrides(override, check, file):
    assert check(load_experiment(file, overrides=[override]))


def test_later_overrides_win_and_build_on_earlier_ones(file):
    config = load_experiment(
        file,
        overrides=["rounds=1", "rounds=2", 'methods=["drop", "weighted"]', "methods.drop.label=d"],
    )
    assert config.rounds == 2
    assert [m.label for m in config.methods] == ["d", "weighted"]


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("rounds", ConfigError, "key=value"),
        ("=5", ConfigError, "key=value"),
        ("", ConfigError, "key=value"),
        ("rounds=x", ConfigError, "whole number"),
        ("roundz=5", UnknownNameError, "Did you mean 'rounds'"),
        ("local.lrr=5", UnknownNameError, "Did you mean 'lr'"),
        ("rounds.x=5", ConfigError, "should be a table"),
        ("local=5", ConfigError, "should be a table"),
        ("methods.w3.a=1", UnknownNameError, "Did you mean"),
        ("methods.7.a=1", UnknownNameError, "'7'"),
        ("methods.-1.a=1", UnknownNameError, "'-1'"),
        ("methods.².a=1", UnknownNameError, "²"),
        ("methods.w1=1", ConfigError, "whole list entry"),
        ("methods.w1.aa=1", UnknownNameError, "aa"),
        ("local..lr=1", UnknownNameError, "Found ''"),
        ("title=1979-05-27", ConfigError, "text"),
        ("local.lr=nan", ConfigError, "finite"),
    ],
)
def test_bad_overrides(override, error, message, file):
    with pytest.raises(error, match=message):
        load_experiment(file, overrides=[override])


def test_seeds_instead_of_the_files(file):
    assert load_experiment(file, seeds=[7, 3]).seeds == (7, 3)
    with pytest.raises(ConfigError, match="seeds"):
        load_experiment(file, seeds=[1, 1])
    with pytest.raises(ConfigError, match="seeds"):
        load_experiment(file, seeds=[])


def test_traces_lie_beside_the_file(file, tmp_path, monkeypatch):
    file.write_text(TOML + '[latency]\nkind = "trace"\npath = "traces/a.csv"\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = load_experiment(file)
    assert config.scenario.latency.path == str((tmp_path / "traces/a.csv").resolve())


def test_loading_twice_is_the_same(file):
    assert load_experiment(file, overrides=["local.lr=2"]) != load_experiment(file)
    assert load_experiment(file) == load_experiment(file)


def test_a_label_goes_before_a_name():
    """The quickstart has a `convert` with a label of its own before the one without."""
    config = load_experiment(overrides=["methods.convert.warm_start=false"])
    by_label = {m.label: m.settings for m in config.methods}
    assert by_label["convert"]["warm_start"] is False
    assert "warm_start" not in by_label["arrivals"]
    other = load_experiment(
        overrides=["methods=[{name='weighted', label='x'}]", "methods.weighted.a=0.5"]
    )
    assert other.methods[0].settings == {"a": 0.5}


def test_some_of_the_methods_by_label():
    chosen = load_experiment(methods=["weighted", "no_delay", "weighted"])
    assert [m.label for m in chosen.methods] == ["no_delay", "weighted"]
    with pytest.raises(UnknownNameError, match="Did you mean 'weighted'"):
        load_experiment(methods=["wighted"])


def test_a_reference_that_is_not_run_is_compared_with_nothing():
    chosen = ["evaluate.reference=weighted"]
    config = load_experiment(overrides=chosen, methods=["weighted", "no_delay"])
    assert config.evaluate.reference == "weighted"
    config = load_experiment(overrides=chosen, methods=["no_delay"])
    assert config.evaluate.reference is None
