import itertools

import numpy as np
import pytest

from unstale.report.palette import HUES, ORACLE_HUE, PAPER, assign_styles, css_variables
from unstale.report.records import Method

# What a reader without one kind of cone sees (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHT = {
    "full": np.eye(3),
    "protan": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]
    ),
    "deutan": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
    ),
    "tritan": np.array(
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]
    ),
}


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    dark, light = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_every_line_stands_out_against_the_page(theme):
    for hue in (*HUES, ORACLE_HUE):
        assert contrast(hue[theme], PAPER[theme]) >= 3


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("theme", [0, 1])
def test_hues_stay_apart_for_every_reader(theme, sight):
    seen = [lab(SIGHT[sight] @ linear(hue[theme])) for hue in HUES]
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > 12


def test_no_two_of_many_methods_look_the_same():
    methods = [Method("ceiling", "no_delay"), *(Method(f"m{i}", "x") for i in range(24))]
    styles = assign_styles(methods)
    assert len({(style.hue, style.dash) for style in styles.values()}) == 25
    assert styles["ceiling"].hue is None
    assert styles["ceiling"].dash
    assert styles["m0"].dash == ""


def test_eight_methods_have_eight_colours_and_two_ceilings_two_dashes():
    styles = assign_styles([Method(f"m{i}", "x") for i in range(8)])
    assert len({style.on_light for style in styles.values()}) == 8
    assert {style.dash for style in styles.values()} == {""}
    ceilings = assign_styles([Method("a", "no_delay"), Method("b", "no_delay")])
    assert ceilings["a"].dash != ceilings["b"].dash


def test_the_page_knows_every_hue():
    for theme in (0, 1):
        written = css_variables(theme)
        for i, hue in enumerate(HUES):
            assert f"--hue{i}:{hue[theme]}" in written
