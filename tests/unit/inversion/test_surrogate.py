"""Descriptions of inputs, starts and schedules."""

import pytest
import torch

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion import InputSpec, Surrogate
from unstale.inversion.schedules import schedule_of
from unstale.inversion.surrogate import AUTO, STARTS, starts_of, warmed
from unstale.seeding import generator

PIXELS = InputSpec(shape=(1, 8, 8), classes=4, low=-1.0, high=3.0)
SENSORS = InputSpec(shape=(30,), classes=4)


def test_grey_is_near_the_middle_and_labels_near_uniform():
    start = STARTS["grey"](PIXELS, 200, 0.1, generator(0))
    assert float(start.x.mean()) == pytest.approx(PIXELS.middle, abs=0.02)
    assert float(start.x.std()) == pytest.approx(0.4, rel=0.05)  # a tenth of the range
    assert float((start.labels - 0.25).abs().max()) < 0.12


def test_halfway_is_between_the_bounds_where_grey_is_at_zero():
    start = STARTS["halfway"](PIXELS, 200, 0.1, generator(0))
    assert float(start.x.mean()) == pytest.approx((PIXELS.low + PIXELS.high) / 2, abs=0.02)
    assert PIXELS.middle == 0


def test_grey_without_bounds_is_near_zero():
    start = STARTS["grey"](SENSORS, 200, 0.1, generator(0))
    assert float(start.x.mean()) == pytest.approx(0, abs=0.01)
    assert float(start.x.std()) == pytest.approx(0.1, rel=0.05)


def test_gaussian_has_unit_variance_whatever_the_noise():
    start = STARTS["gaussian"](SENSORS, 200, 0.1, generator(0))
    assert float(start.x.std()) == pytest.approx(1, rel=0.05)
    assert float(start.y_logits.std()) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("shape", [(30,), (6, 40), (1, 8, 8), (3, 1, 1), (1, 4, 6, 6)])
def test_classes_tells_samples_apart_around_the_plain_value(shape):
    spec = InputSpec(shape, classes=4, low=-8.0, high=12.0)
    start = STARTS["classes"](spec, 400, 0.05, generator(0))
    assert start.fits(spec)
    assert start.labels.argmax(1)[:6].tolist() == [0, 1, 2, 3, 0, 1]
    assert float(start.labels.max()) < 0.9, "no class is certain"
    assert float(start.x.mean()) == pytest.approx(spec.middle, abs=0.1 * spec.unit)
    assert float(start.x.std(0).mean()) == pytest.approx(0.2 * spec.unit, rel=0.2)


def test_classes_is_smooth_over_positions():
    fine = STARTS["classes"](PIXELS, 200, 0.0, generator(0)).x
    assert float(fine.diff(dim=-1).abs().mean()) < 0.6 * float(fine.std())
    features = STARTS["classes"](SENSORS, 200, 0.0, generator(0)).x
    assert float(features.diff(dim=-1).abs().mean()) > float(features.std())


def test_names_of_starts():
    assert starts_of("auto") == AUTO
    assert starts_of("grey + borrowed") == ("grey", "borrowed")
    assert starts_of("gaussian") == ("gaussian",)
    with pytest.raises(UnknownNameError, match="Did you mean 'grey'"):
        starts_of("gray")


@pytest.mark.parametrize("name", sorted(STARTS))
def test_starts_depend_on_the_seed_alone(name):
    make = STARTS[name]
    a, b, c = (make(PIXELS, 3, 0.1, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.y_logits, b.y_logits)
    assert not torch.equal(a.x, c.x)
    assert a.fits(PIXELS)


def test_a_one_sided_bound_is_kept():
    spec = InputSpec(shape=(5,), classes=2, low=0.0)
    assert float(STARTS["grey"](spec, 20, 0.1, generator(0)).x.min()) == 0.0
    assert InputSpec(shape=(5,), classes=2, high=-2.0).middle == -2.0


def test_a_warm_surrogate_is_cut_or_filled_up():
    warm = Surrogate(torch.ones(3, 30), torch.ones(3, 4))
    fresh = Surrogate(torch.zeros(5, 30), torch.zeros(5, 4))
    longer = warmed(warm, fresh)
    assert longer.x[:, 0].tolist() == [1, 1, 1, 0, 0]
    assert longer.y_logits[:, 0].tolist() == [1, 1, 1, 0, 0]
    shorter = warmed(warm, Surrogate(fresh.x[:2], fresh.y_logits[:2]))
    assert shorter.x[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("x", "logits"),
    [
        (torch.full((2, 30), torch.nan), torch.zeros(2, 4)),
        (torch.zeros(2, 29), torch.zeros(2, 4)),
        (torch.zeros(2, 30), torch.zeros(2, 5)),
        (torch.zeros(2, 30), torch.full((2, 4), torch.inf)),
        (torch.zeros(0, 30), torch.zeros(0, 4)),
    ],
)
def test_a_surrogate_that_does_not_fit_is_told(x, logits):
    assert not Surrogate(x, logits).fits(SENSORS)


def test_soft_labels_are_the_softmax_of_the_logits():
    surrogate = Surrogate(torch.zeros(1, 2), torch.tensor([[0.0, 3.0]]).log_softmax(-1))
    torch.testing.assert_close(surrogate.labels.log(), surrogate.y_logits)


def test_schedules():
    paper = [schedule_of("paper")(i, 8) for i in range(8)]
    assert paper == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.001])
    cosine = [schedule_of("cosine")(i, 4) for i in range(4)]
    assert cosine == pytest.approx([1, 0.8535534, 0.5, 0.1464466])
    assert schedule_of("constant")(3, 4) == 1
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        schedule_of("cosin")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": ()}, "`shape`"),
        ({"shape": (0, 3)}, "`shape`"),
        ({"classes": 0}, "`classes`"),
        ({"low": 1.0, "high": 1.0}, "below `high`"),
        ({"low": float("-inf")}, "`low` should be finite"),
    ],
)
def test_bad_descriptions_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        InputSpec(**{"shape": (3,), "classes": 2, **fields})


def test_a_list_from_toml_is_a_shape():
    assert InputSpec(shape=[1, 2], classes=2).shape == (1, 2)


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [
        (0.0, 1.0, 0.5),  # 0 is black, a bound
        (-0.42, 2.82, 0.0),  # standardised: 0 is the mean
        (-1.0, 1.0, 0.0),
        (2.0, 4.0, 3.0),
        (None, None, 0.0),
        (1.0, None, 1.0),
        (None, -1.0, -1.0),
        (0.0, None, 0.0),
    ],
)
def test_the_plain_value_to_begin_from(low, high, middle):
    assert InputSpec((3,), 2, low, high).middle == middle


def test_wide_bounds_of_standardised_data_are_no_measure():
    assert InputSpec((30,), 4, low=-10.0, high=10.0).unit == 4  # two deviations to each side
    assert InputSpec((30,), 4, low=-0.42, high=2.82).unit == pytest.approx(3.24)
    assert InputSpec((30,), 4, low=0.0, high=255.0).unit == 255  # plain pixels
