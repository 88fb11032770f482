"""Settings check themselves, and size surrogates and recipes."""

import pytest

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion import Inversion, preset


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"iterations": 0}, "`iterations` should be a positive integer"),
        ({"history": 1.0}, "`history` should be a positive integer"),
        ({"min_samples": 9, "max_samples": 8}, "`min_samples`"),
        ({"lr": 0.0}, "`lr` should be above 0"),
        ({"label_lr": float("nan")}, "`label_lr` should be at least 0"),
        ({"noise": -1.0}, "`noise`"),
        ({"patience": -1}, "`patience`"),
        ({"max_lr_cuts": -1}, "`max_lr_cuts`"),
        ({"sparsity": 1.0}, "sparsity"),
        ({"sample_share": 0.0}, "`sample_share`"),
        ({"sample_share": 10.5}, "`sample_share`"),
        ({"max_seconds": 0.0}, "`max_seconds`"),
        ({"trial_iterations": 0}, "`trial_iterations` should be a positive integer"),
        ({"trial_loss": -1.0}, "`trial_loss`"),
        ({"start": "borrowed"}, "every client has"),
        ({"start": "borrowed+grey"}, "every client has"),
        ({"start": "grey+grey"}, "once each"),
        ({"labels": "hard", "label_lr": 0.0}, "`label_lr` should be above 0 with hard labels"),
        ({"entropy": -0.1}, "`entropy` should be at least 0"),
        ({"count_iterations": 0}, "`count_iterations` should be a positive integer"),
        ({"max_steps": -1}, "`max_steps` should be an integer"),
        ({"max_steps": 20.0}, "`max_steps` should be an integer"),
    ],
)
def test_bad_settings_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Inversion(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "l3"},
        {"optimizer": "adm"},
        {"start": "gray"},
        {"schedule": "cos"},
        {"start": "grey+gausian"},
        {"start": ""},
        {"path": "alone"},
        {"labels": "firm"},
        {"precision": "float16"},
    ],
)
def test_unknown_names_are_refused(fields):
    with pytest.raises(UnknownNameError):
        Inversion(**fields)


def test_samples_are_a_share_within_bounds():
    settings = Inversion(min_samples=8, max_samples=100)
    assert [settings.num_samples(n) for n in (1, 40, 450)] == [8, 40, 100]
    half = Inversion(min_samples=8, max_samples=100, sample_share=0.5)
    assert [half.num_samples(n) for n in (1, 40, 450)] == [8, 20, 100]
    assert Inversion(max_samples=5000, sample_share=10).num_samples(450) == 4500


def test_the_surrogate_takes_the_clients_steps():
    settings = Inversion(min_samples=1, max_samples=1000, sample_share=0.5, max_steps=0)
    full = settings.local_for(us.LocalSpec(epochs=5), 450)
    assert (full.num_steps(225), full.batch_size) == (5, None)
    # 450 in batches of 32 are 15 a pass; 225 samples in 15 batches are 15 each.
    batched = settings.local_for(us.LocalSpec(epochs=5, batch_size=32), 450)
    assert (batched.num_steps(225), batched.batch_size) == (75, 15)


def test_adam_divides_by_more_than_the_clients():
    client = us.LocalSpec(optimizer="adam", epochs=5, eps=1e-8)
    assert Inversion().local_for(client, 40).eps == 1e-3
    assert Inversion(adam_eps=0).local_for(client, 40).eps == 1e-8
    assert Inversion(adam_eps=1e-9).local_for(client, 40).eps == 1e-8
    assert preset("paper").local_for(client, 40).eps == 1e-8
    sgd = us.LocalSpec(epochs=5)
    assert Inversion().local_for(sgd, 40).eps == sgd.eps


def test_a_long_recipe_is_shortened():
    settings = Inversion(min_samples=1, max_samples=1000, sample_share=0.5, max_steps=30)
    # 5 passes over 225 samples in 30 steps: 6 batches a pass.
    short = settings.local_for(us.LocalSpec(lr=0.01, epochs=5, batch_size=32), 450)
    assert (short.num_steps(225), short.batch_size) == (30, 38)
    assert short.lr == pytest.approx(0.01 * 75 / 30)


def test_the_presets():
    paper = preset("paper", warm_iterations=500)
    assert (paper.optimizer, paper.objective, paper.start) == ("signed", "l1", "gaussian")
    assert (paper.history, paper.schedule, paper.iterations) == (1, "paper", 15000)
    assert (paper.path, paper.max_steps, paper.residual) == ("exact", 0, False)
    assert (paper.sparsity, paper.warm_iterations, paper.patience) == (0.95, 500, 0)
    assert preset("paper_dense") == preset("paper", sparsity=0.0)
    assert preset("no_residual") == Inversion(residual=False) != Inversion()
    assert preset("default") == Inversion()
    thorough, default = preset("thorough"), Inversion()
    assert thorough.ensemble > default.ensemble == 1
    assert thorough.max_samples > default.max_samples
    assert thorough.sparsity == default.sparsity  # more work, never less privacy
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        preset("papr")
