"""LPIPS: a perceptual distance between images, by the features of AlexNet.

The weights come from a file that the user names: an `.npz` with AlexNet's convolutions
(`features.0.weight`, …, as torchvision names them) and the linear heads of LPIPS v0.1
(`lpips.lin0.model.1.weight`, …). It is read without pickle.
"""

import math
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.errors import ConfigError

# Of inputs in [-1, 1], channel by channel, as LPIPS publishes them.
_SHIFT = (-0.030, -0.088, -0.188)
_SCALE = (0.458, 0.448, 0.450)
# AlexNet's convolutions: their place in torchvision's `features`, stride, padding, and whether
# a 3 × 3 maximum with stride 2 comes before.
_LAYERS = ((0, 4, 2, False), (3, 1, 2, True), (6, 1, 1, True), (8, 1, 1, False), (10, 1, 1, False))
_CHANNELS = (3, 64, 192, 384, 256, 256)
_KERNELS = (11, 5, 3, 3, 3)
SIDE = 64
"""The least side: the heads were fitted on patches of 64 × 64, and AlexNet needs about that."""


class Lpips:
    r"""The distance LPIPS v0.1 with AlexNet.

    $$ d(a, b) = \sum_l \frac1{H_l W_l} \sum_{h,w}
       w_l \cdot \big(\hat a^l_{hw} - \hat b^l_{hw}\big)^2 $$

    where the features of layer l are scaled to length 1 over channels. Grey images are
    repeated into three equal channels. Images with a side below 64 are scaled up bilinearly
    such that the shorter side is 64; so MNIST's 28 × 28 are, and figures for them are of
    use beside each other rather than beside those for photographs.

    Args:
        path: The weights.
        device: Where to compute.

    Raises:
        ConfigError: If the file is not there, or not as described.
    """

    def __init__(self, path: str | Path, device: torch.device | str = "cpu") -> None:
        arrays = _read(Path(path))
        self._convolutions, self._heads = [], []
        for layer, (place, *_) in enumerate(_LAYERS):
            shape = (_CHANNELS[layer + 1], _CHANNELS[layer], _KERNELS[layer], _KERNELS[layer])
            weight = _tensor(arrays, f"features.{place}.weight", shape, path)
            bias = _tensor(arrays, f"features.{place}.bias", shape[:1], path)
            self._convolutions.append((weight.to(device), bias.to(device)))
            head = _tensor(arrays, f"lpips.lin{layer}.model.1.weight", (1, shape[0], 1, 1), path)
            self._heads.append(head.to(device))

    @torch.no_grad()
    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the distance of each pair of images in [0, 1] `[pairs, channels, h, w]`."""
        total = torch.zeros(len(a), device=self._heads[0].device)
        features = zip(self._features(a), self._features(b), self._heads, strict=True)
        for one, other, head in features:
            far = (_unit(one) - _unit(other)).square()
            total = total + F.conv2d(far, head).mean((1, 2, 3))
        return total

    def _features(self, x: Tensor) -> list[Tensor]:
        x = prepared(x.to(self._heads[0]))
        found = []
        for (_, stride, padding, pooled), (weight, bias) in zip(
            _LAYERS, self._convolutions, strict=True
        ):
            if pooled:
                x = F.max_pool2d(x, 3, 2)
            x = F.conv2d(x, weight, bias, stride, padding).relu()
            found.append(x)
        return found


def prepared(x: Tensor) -> Tensor:
    """Return images in [0, 1] as AlexNet takes them: three channels, 64 × 64 at least.

    Example:
        >>> prepared(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 3, 64, 64])
    """
    if x.shape[1] == 1:
        x = x.expand(-1, 3, -1, -1)
    if min(x.shape[-2:]) < SIDE:
        factor = SIDE / min(x.shape[-2:])
        size = [math.ceil(side * factor) for side in x.shape[-2:]]
        x = F.interpolate(x, size=size, mode="bilinear", align_corners=False)
    shift, scale = (torch.tensor(v).to(x).reshape(1, 3, 1, 1) for v in (_SHIFT, _SCALE))
    return (2 * x - 1 - shift) / scale


def takes(shape: tuple[int, ...]) -> bool:
    """Tell whether inputs of this shape are images that LPIPS can compare.

    Example:
        >>> takes((1, 28, 28)), takes((64,))
        (True, False)
    """
    return len(shape) == 3 and shape[0] in (1, 3)


def _unit(features: Tensor) -> Tensor:
    return features / (features.square().sum(1, keepdim=True).sqrt() + 1e-10)


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise ConfigError(f"The LPIPS weights should be a file. There is none at {path}.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"The LPIPS weights should be an .npz of plain arrays. {path} is not: {error}."
        ) from error


def _tensor(
    arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...], path: str | Path
) -> Tensor:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype.kind != "f":
        what = "none" if found is None else f"{found.dtype} {found.shape}"
        raise ConfigError(
            f"The LPIPS weights in {path} should have `{name}` as floats {shape}. Found {what}."
        )
    return torch.from_numpy(found.astype(np.float32))
