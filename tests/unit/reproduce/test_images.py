"""Images in result files become the picture that they were."""

import torch
from matplotlib.image import imread

from unstale.reproduce.images import as_levels, draw_rows


def test_levels_are_cut_at_black_and_white():
    x = torch.tensor([[[[-9.0, -0.5, 0.0, 0.5, 9.0]]]])
    assert as_levels(x, -0.5, 0.5) == [[0, 0, 128, 255, 255]]


def test_rows_are_drawn_in_their_order_in_grey_or_colour(tmp_path):
    black, white = [0] * 4, [255] * 4
    draw_rows({"top": [black, black], "below": [white]}, (1, 2, 2), tmp_path / "grey.png")
    pixels = imread(tmp_path / "grey.png")[:, :, :3]
    dark = (pixels.sum(2) < 0.05).mean(1)  # the share of black in each line of the picture
    half = len(dark) // 2
    assert dark[:half].max() > 0.3
    assert dark[half:].max() < 0.2  # the row's name is black, too
    red = [255] * 4 + [0] * 8
    draw_rows({"red": [red]}, (3, 2, 2), tmp_path / "red.png")
    pixels = imread(tmp_path / "red.png")[:, :, :3]
    assert ((pixels[:, :, 0] > 0.9) & (pixels[:, :, 1:].max(2) < 0.1)).mean() > 0.1
