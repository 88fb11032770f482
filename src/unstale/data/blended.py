"""Digits in another look than MNIST's: blended into photographs, or as house numbers in grey.

Both have the form of `mnist`: one grey channel of 28×28, scaled by MNIST's mean and deviation, so
that one model takes either look. A client's data can drift from one to the other (`[drift]` of kind
`look`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unstale.data.dataset import Dataset
from unstale.data.idx import MNIST_SCALE
from unstale.data.source import Derived
from unstale.errors import DataError
from unstale.seeding import generator

if TYPE_CHECKING:
    import torch

SIDE = 28
# The weights of red, green and blue in grey, as ITU-R BT.601 has them.
LUMA = (0.299, 0.587, 0.114)
# Digits that are blended at a time: bounds the memory that crops in colour take.
CHUNK = 4096


def blend(
    digits: "torch.Tensor", photographs: "torch.Tensor", rng: "torch.Generator"
) -> "torch.Tensor":
    """Return digits blended into random crops of photographs, as MNIST-M does, in grey.

    A pixel in colour is |photograph − digit|: strokes show the photograph's negative. The three
    channels are then made grey by their luma.

    Args:
        digits: [samples, 1, height, width] in [0, 1].
        photographs: [photographs, 3, height, width] in [0, 1], at least as large as a digit.
        rng: Draws a photograph and the place of the crop for each digit.

    Returns:
        [samples, 1, height, width] in [0, 1].

    References:
        Ganin et al., *Domain-Adversarial Training of Neural Networks*, JMLR 17 (2016).
    """
    import torch

    count, _, height, width = digits.shape

    def draw(below: int) -> torch.Tensor:
        return torch.randint(below, (count,), generator=rng)

    chosen = draw(len(photographs))
    top = draw(photographs.shape[2] - height + 1)
    left = draw(photographs.shape[3] - width + 1)
    luma = torch.tensor(LUMA)
    down, across = torch.arange(height), torch.arange(width)
    blended = torch.empty_like(digits)
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        rows = (top[part, None] + down)[:, :, None]
        columns = (left[part, None] + across)[:, None, :]
        # Advanced indices around a slice: the channels come last.
        crops = photographs[chosen[part, None, None], :, rows, columns]
        difference = (crops - digits[part, 0, :, :, None]).abs()
        blended[part, 0] = (difference * luma).sum(-1)
    return blended.clamp_(0, 1)


def make_blended(parts: Mapping[str, Dataset]) -> Dataset:
    """Return MNIST's digits in CIFAR-10's photographs; no seed of a run changes a sample.

    Digits keep their order and their part: test digits are blended into test photographs.

    Raises:
        DataError: If a digit is larger than a photograph.
    """
    mnist, cifar = parts["mnist"], parts["cifar10"]
    if any(d > p for d, p in zip(mnist.input_shape[1:], cifar.input_shape[1:], strict=True)):
        raise DataError(
            f"Digits should fit into photographs of {cifar.input_shape[1:]}. Found digits of "
            f"{mnist.input_shape[1:]}: the files of 'mnist' are others than the published ones."
        )

    def blended(x: "torch.Tensor", photographs: "torch.Tensor", part: str) -> "torch.Tensor":
        digits = MNIST_SCALE.undo(x).clamp_(0, 1)
        pixels = blend(digits, photographs, generator(0, "blended_mnist", part))
        return MNIST_SCALE(pixels).clamp_(mnist.low, mnist.high)

    return Dataset(
        name="blended_mnist",
        x_train=blended(mnist.x_train, cifar.x_train, "train"),
        y_train=mnist.y_train,
        x_test=blended(mnist.x_test, cifar.x_test, "test"),
        y_test=mnist.y_test,
        classes=mnist.classes,
        low=mnist.low,
        high=mnist.high,
    )


def make_grey_svhn(parts: Mapping[str, Dataset]) -> Dataset:
    """Return SVHN's house numbers in grey, scaled down to 28×28."""
    import torch
    from torch.nn.functional import interpolate

    svhn = parts["svhn"]
    luma = torch.tensor(LUMA)[:, None, None]
    low, high = MNIST_SCALE(torch.tensor([0.0, 1.0])).tolist()

    def grey(x: torch.Tensor) -> torch.Tensor:
        small = interpolate(
            (x * luma).sum(1, keepdim=True), (SIDE, SIDE), mode="bilinear", antialias=True
        )
        return MNIST_SCALE(small.clamp_(0, 1)).clamp_(low, high)

    return Dataset(
        name="grey_svhn",
        x_train=grey(svhn.x_train),
        y_train=svhn.y_train,
        x_test=grey(svhn.x_test),
        y_test=svhn.y_test,
        classes=svhn.classes,
        low=low,
        high=high,
    )


BLENDED_MNIST = Derived(
    summary="digits of `mnist` blended into photographs of `cifar10`, as MNIST-M does, in grey",
    of=("mnist", "cifar10"),
    make=make_blended,
)
GREY_SVHN = Derived(
    summary="house numbers of `svhn` in the form of `mnist`: grey, 28×28",
    of=("svhn",),
    make=make_grey_svhn,
)
