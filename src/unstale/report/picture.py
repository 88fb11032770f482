"""One input of a model as a small picture: an image, or lines of a signal."""

import base64
import struct
import zlib
from collections.abc import Sequence

from unstale.report.conversions import SurrogateSamples
from unstale.report.markup import text

# Signals of more channels, and of fewer steps, are rather tables than lines.
MAX_CHANNELS, MIN_STEPS = 12, 8
WIDTH, HEIGHT = 96, 64


def kind_of(shape: Sequence[int]) -> str:
    """Return how an input of this shape is drawn: `image`, `signal`, or not at all.

    Example:
        >>> [kind_of(shape) for shape in ((1, 8, 8), (3, 32, 32), (6, 128), (225,), (2, 3, 4, 5))]
        ['image', 'image', 'signal', 'signal', '']
    """
    if len(shape) == 3 and shape[0] in (1, 3):
        return "image"
    if len(shape) == 1 and shape[0] >= MIN_STEPS:
        return "signal"
    if len(shape) == 2 and shape[0] <= MAX_CHANNELS and shape[1] >= MIN_STEPS:
        return "signal"
    return ""


def picture(surrogate: SurrogateSamples, sample: int, said: str) -> str:
    """Return a sample as HTML; `said` is the text for those who cannot see it."""
    if kind_of(surrogate.shape) == "image":
        uri = base64.b64encode(png(surrogate, sample)).decode("ascii")
        return f'<img src="data:image/png;base64,{uri}" alt="{text(said)}">'
    return _signal(surrogate, sample, said)


def levels(surrogate: SurrogateSamples, sample: int) -> list[float]:
    """Return a sample's values between 0 and 1."""
    span = surrogate.high - surrogate.low or 1.0
    return [min(max((v - surrogate.low) / span, 0.0), 1.0) for v in surrogate.x[sample]]


def png(surrogate: SurrogateSamples, sample: int) -> bytes:
    """Return an image, channels first, as a PNG of one pixel for each of its own."""
    channels, height, width = surrogate.shape
    values = bytes(round(255 * level) for level in levels(surrogate, sample))
    plane = height * width
    # PNG wants the colours of a pixel side by side, and 0 (no filter) before each row.
    pixels = bytearray(len(values))
    for channel in range(channels):
        pixels[channel::channels] = values[channel * plane : (channel + 1) * plane]
    stride = width * channels
    rows = b"".join(b"\0" + pixels[y * stride : (y + 1) * stride] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def _signal(surrogate: SurrogateSamples, sample: int, said: str) -> str:
    """Return a line for each channel, over each other as they are in time."""
    steps = surrogate.shape[-1]
    # Bounds of a signal lie far out; its own range shows its form.
    values = surrogate.x[sample]
    low, high = min(values), max(values)
    span = high - low or 1.0
    lines = []
    for start in range(0, len(values), steps):
        # No more points than can be told apart.
        every = max(1, steps // (2 * WIDTH))
        points = " ".join(
            f"{(WIDTH - 2) * i / (steps - 1) + 1:.1f},"
            f"{(HEIGHT - 4) * (high - values[start + i]) / span + 2:.1f}"
            for i in range(0, steps, every)
        )
        lines.append(f'<polyline points="{points}"/>')
    return (
        f'<svg class="signal" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(said)}">'
        f"{''.join(lines)}</svg>"
    )
