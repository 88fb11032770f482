"""Errors between inputs, pixel by pixel: MSE, PSNR and SSIM, all on the range from 0 to 1."""

import math

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.inversion import InputSpec

# SSIM's Gaussian window: 11 × 11 as published; 5 × 5 for images in which that does not fit.
_SIGMA, _SMALL_SIGMA = 1.5, 0.5
_LARGE_SIDE, _LEAST_SIDE = 22, 5


def unit_range(x: Tensor, inputs: InputSpec) -> Tensor:
    """Return inputs scaled from their bounds to [0, 1]; values beyond the bounds are clamped.

    Raises:
        ConfigError: If the inputs have no bounds.

    Example:
        >>> unit_range(torch.tensor([-1.0, 0.0, 3.0]), InputSpec((3,), 2, -1.0, 1.0))
        tensor([0.0000, 0.5000, 1.0000])
    """
    if inputs.low is None or inputs.high is None:
        raise ConfigError(
            "audit: `inputs` should have both bounds, `low` and `high`: errors are measured as a "
            f"share of the range. Found {inputs.low} and {inputs.high}."
        )
    return ((x - inputs.low) / (inputs.high - inputs.low)).clamp(0, 1)


def mean_squared_errors(a: Tensor, b: Tensor) -> Tensor:
    """Return the mean squared error of every pair `[len(a), len(b)]`.

    Example:
        >>> mean_squared_errors(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        tensor([[0.5000, 1.0000]])
    """
    flat_a, flat_b = a.flatten(1), b.flatten(1)
    # Not as |a|² − 2ab + |b|², which is not exactly 0 for equal inputs.
    far = torch.cdist(flat_a, flat_b, compute_mode="donot_use_mm_for_euclid_dist")
    return far.square() / flat_a.shape[1]


def psnr(mse: float) -> float:
    """Return the peak signal-to-noise ratio, 10·log₁₀(1 / MSE), of inputs in [0, 1], in dB.

    Example:
        >>> round(psnr(0.01), 6)
        20.0
    """
    return -10 * math.log10(mse) if mse > 0 else math.inf


def ssim(a: Tensor, b: Tensor) -> Tensor | None:
    """Return the structural similarity of each pair of images `[pairs]`, by torchmetrics.

    The window is Gaussian with σ = 1.5 (11 × 11). For images with a side below 22 it is σ = 0.5
    (5 × 5), which is not comparable with published figures, but with the rows beside it.

    Returns:
        None for inputs that are no images, or smaller than the window.

    Raises:
        ConfigError: If torchmetrics is not installed.
    """
    if a.ndim != 4 or min(a.shape[-2:]) < _LEAST_SIDE:
        return None
    sigma = _SIGMA if min(a.shape[-2:]) >= _LARGE_SIDE else _SMALL_SIGMA
    try:
        from torchmetrics.functional.image import structural_similarity_index_measure
    except ImportError as error:
        raise ConfigError(
            "audit: SSIM should be computed by torchmetrics, which is not installed. "
            "Install it with: pip install 'unstale[audit]'."
        ) from error
    found = structural_similarity_index_measure(a, b, sigma=sigma, data_range=1.0, reduction="none")
    return torch.as_tensor(found).reshape(len(a))


def has_ssim() -> bool:
    """Tell whether torchmetrics is installed."""
    import importlib.util

    return importlib.util.find_spec("torchmetrics") is not None
