"""`PrivacyAudit`: what an audit has measured, as text and as JSON."""

import dataclasses
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unstale.audit.metrics.quality import Quality
from unstale.audit.pictures import Strip
from unstale.audit.verdict import FIRST, LAST, OTHER, UPDATE, Verdict, judge
from unstale.privacy import Protection

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["FIRST", "LAST", "OTHER", "UPDATE", "Labels", "PrivacyAudit", "Size"]

WIDTH = 110
# The measures of a table: field, head, decimals, and whether less is nearer.
MEASURES = (
    ("mse", "MSE", 4, True),
    ("psnr", "PSNR", 1, False),
    ("ssim", "SSIM", 2, False),
    ("lpips", "LPIPS", 3, True),
    ("identified", "found", 2, False),
    ("recognised", "class", 2, False),
    ("auc", "AUC", 2, False),
    ("true_positives", "TPR 1%", 2, False),
)
CAPTION = (
    "of matched pairs: MSE, PSNR (dB), SSIM, LPIPS; found: the recovered input finds its own "
    "original among many; class: a classifier sees the original's class; AUC, TPR at 1 % FPR: "
    "telling members from held-out samples of the class"
)


@dataclass(frozen=True, slots=True)
class Labels:
    """Which share of a client's labels is told; NaN where a way does not apply."""

    learned: float
    """By the labels of the surrogate."""
    analytic: float
    """By the last layer of the update."""
    even: float
    """By guessing that all classes are equally frequent."""


@dataclass(frozen=True, slots=True)
class Size:
    """What was found of clients with one number of samples."""

    samples: int
    """How many samples a client holds."""
    surrogate: int
    """How many its surrogate has."""
    rows: Mapping[str, Quality]
    """Measures by attack or baseline, means over clients."""
    labels: Labels
    """Which share of labels is told."""
    failed: int = 0
    """Clients whose fits all failed, so that there is no surrogate."""
    strips: tuple[Strip, ...] = ()
    """Pictures of the first client."""


@dataclass(frozen=True, slots=True)
class PrivacyAudit:
    """What `audit_privacy` has found; `print` shows it as tables with sentences."""

    sizes: tuple[Size, ...]
    """By the number of samples of a client, the smallest first."""
    attacked: int
    """How many clients were attacked."""
    clients: int
    """How many clients trained the model."""
    updates: int
    """How many updates of each were converted."""
    steps: int
    """The local steps of an update, of the largest clients."""
    protection: Protection = field(default_factory=Protection)
    """What attacked clients did to updates before sending them."""
    device: str = "cpu"
    """Where it ran."""
    seconds: float = 0.0
    """How long it took."""
    title: str = ""
    """What was audited."""
    classes: int = 10
    """The number of classes."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What surrogates show, for each size."""
        return tuple(judge(s.samples, s.rows, self.classes) for s in self.sizes)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the audit shows, what it does not, and what to change."""
        from unstale.audit.words import sentences

        return sentences(self)

    def to_json(self) -> dict[str, Any]:
        """Return everything but pictures as values that JSON has; null for what is no number."""
        found = {
            "title": self.title,
            "verdicts": [
                {"samples": v.samples, "shows": v.word, "added": v.added} for v in self.verdicts
            ],
            "sentences": list(self.sentences),
            "attacked": self.attacked,
            "clients": self.clients,
            "updates": self.updates,
            "steps": self.steps,
            "protection": dataclasses.asdict(self.protection),
            "device": self.device,
            "seconds": self.seconds,
            "sizes": [
                {
                    "samples": s.samples,
                    "surrogate": s.surrogate,
                    "failed": s.failed,
                    "labels": dataclasses.asdict(s.labels),
                    "rows": {name: dataclasses.asdict(q) for name, q in s.rows.items()},
                }
                for s in self.sizes
            ],
        }
        plain: dict[str, Any] = _plain(found)
        return plain

    def render(self) -> "RenderableType":
        """Return the tables and the sentences for a `rich` console."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        about = f"{self.attacked} of {self.clients} clients attacked, on {self.device}"
        if self.protection.enabled:
            about += f", protected: {protected(self.protection)}"
        table = Table(
            title=Text(f"{self.title}: {about}" if self.title else about),
            caption=Text(CAPTION),
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        measures = [m for m in MEASURES if self.has(m[0])]
        table.add_column("samples", justify="right")
        table.add_column("recovered by")
        for _, head, _, _ in measures:
            table.add_column(head, justify="right")
        for i, size in enumerate(self.sizes):
            for j, (name, quality) in enumerate(size.rows.items()):
                cells = (written(getattr(quality, m[0]), m[2]) for m in measures)
                own = name in (FIRST, LAST)
                table.add_row(
                    str(size.samples) if j == 0 else "",
                    name,
                    *cells,
                    style="bold" if own else None,
                    end_section=j == len(size.rows) - 1 and i < len(self.sizes) - 1,
                )
        return Group(table, *(Text(sentence) for sentence in self.sentences))

    def has(self, measure: str) -> bool:
        """Tell whether anything has this measure."""
        return any(math.isfinite(getattr(q, measure)) for s in self.sizes for q in s.rows.values())

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH, color_system=None).print(self.render())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def protected(protection: Protection) -> str:
    """Return what protection does, in words.

    Example:
        >>> protected(Protection(sparsity=0.95, clip=1.0, noise_multiplier=0.5))
        '95 % left out, clipped to 1, noise of deviation 0.5'
    """
    parts = []
    if protection.sparsity:
        parts.append(f"{100 * protection.sparsity:g} % left out")
    if protection.clip is not None:
        parts.append(f"clipped to {protection.clip:g}")
    if protection.noise_std:
        parts.append(f"noise of deviation {protection.noise_std:.2g}")
    return ", ".join(parts) or "none"


def written(value: float, digits: int) -> str:
    """Return a number for people, a dash where there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
