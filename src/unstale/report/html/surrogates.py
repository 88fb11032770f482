"""Surrogates as cards of the page: each sample as a small picture with its labels."""

import base64
import struct
import zlib
from dataclasses import dataclass

from unstale.report.figures.surrogates import Gallery, kind_of, levels
from unstale.report.records import Client, Scenario
from unstale.run_folder import SurrogateSamples

# The size of a signal's drawing, in its own units.
WIDTH, HEIGHT = 96, 64
# A second label of less than this share is not worth a line.
MIN_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Tile:
    """One sample."""

    said: str
    """What it is, for those who cannot see it."""
    labels: tuple[tuple[str, float], ...]
    """Its likeliest classes with their shares, the first one first; foreign text."""
    share: float
    """The share of the likeliest class, between 0 and 1."""
    image: str = ""
    """An image as a data URI; empty for other inputs."""
    lines: tuple[str, ...] = ()
    """A signal's channels as points of SVG lines; empty for other inputs."""


@dataclass(frozen=True, slots=True)
class Card:
    """One client's surrogate."""

    client: str
    """Whose; foreign text."""
    facts: str
    """How many samples, and what the client really holds; foreign text."""
    kind: str
    """How its samples are shown: `images`, `signals`, or `bare` (labels only)."""
    shape: str
    """The shape of one input."""
    tiles: tuple[Tile, ...]
    """Its samples."""


def cards(gallery: Gallery) -> list[Card]:
    """Return one card for each client of a gallery."""
    return [_card(one, gallery.scenario) for one in gallery.surrogates]


def _card(surrogate: SurrogateSamples, scenario: Scenario | None) -> Card:
    names = scenario.classes if scenario else ()
    clients = scenario.clients if scenario else ()
    held = next((client for client in clients if client.id == surrogate.client), None)
    count = len(surrogate.x)
    of = f" of {surrogate.samples}" if count < surrogate.samples else ""
    facts = f"{count}{of} samples"
    if held:
        facts += f"; the client's own classes: {_holds(held, names)}"
    return Card(
        surrogate.client,
        facts,
        {"image": "images", "signal": "signals", "": "bare"}[kind_of(surrogate.shape)],
        " × ".join(map(str, surrogate.shape)),
        tuple(_tile(surrogate, i, names) for i in range(count)),
    )


def _holds(client: Client, names: tuple[str, ...]) -> str:
    most = sorted(range(len(names)), key=lambda c: -client.histogram[c])
    told = [f"{names[c]} ({client.histogram[c]})" for c in most if client.histogram[c]]
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")


def _tile(surrogate: SurrogateSamples, sample: int, names: tuple[str, ...]) -> Tile:
    label = surrogate.labels[sample]
    order = sorted(range(len(label)), key=lambda c: -label[c])[:2]
    top = tuple(
        (names[c] if c < len(names) else str(c), label[c])
        for i, c in enumerate(order)
        if i == 0 or label[c] >= MIN_SHARE
    )
    kind = kind_of(surrogate.shape)
    return Tile(
        said=f"Sample {sample + 1}" + (f", {top[0][0]} {top[0][1]:.0%}" if top else ""),
        labels=top,
        share=min(max(max(label, default=0.0), 0), 1),
        image=png_uri(encode_png(surrogate, sample)) if kind == "image" else "",
        lines=signal_lines(surrogate, sample) if kind == "signal" else (),
    )


def png_uri(png: bytes) -> str:
    """Return a PNG as a data URI, so that the page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def encode_png(surrogate: SurrogateSamples, sample: int) -> bytes:
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


def signal_lines(surrogate: SurrogateSamples, sample: int) -> tuple[str, ...]:
    """Return a line for each channel as SVG points, all on one time axis."""
    steps = surrogate.shape[-1]
    # Bounds of a signal lie far out; its own range shows its form.
    values = surrogate.x[sample]
    low, high = min(values), max(values)
    span = high - low or 1.0
    # No more points than can be told apart.
    every = max(1, steps // (2 * WIDTH))
    return tuple(
        " ".join(
            f"{(WIDTH - 2) * i / (steps - 1) + 1:.1f},"
            f"{(HEIGHT - 4) * (high - values[start + i]) / span + 2:.1f}"
            for i in range(0, steps, every)
        )
        for start in range(0, len(values), steps)
    )
