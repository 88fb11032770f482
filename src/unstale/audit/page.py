"""The page of an audit: one self-contained HTML file, with pictures side by side."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import jinja2

from unstale import __version__
from unstale.audit.metrics.quality import Quality
from unstale.audit.pictures import ORIGINAL, Strip
from unstale.audit.result import MEASURES, PrivacyAudit, Size, protected, written
from unstale.audit.verdict import FIRST, LAST, UPDATE
from unstale.files import write_whole
from unstale.report.figures.surrogates import kind_of
from unstale.report.html.page import environment
from unstale.report.html.surrogates import encode_png, png_uri, signal_lines
from unstale.report.html.tables import Cell, Column, Row, Table
from unstale.report.palette import css_variables
from unstale.run_folder.surrogates import SurrogateSamples

_LEDES = {
    "samples": "single samples of clients can be recognised in their surrogates",
    "members": "surrogates tell whether a sample was among a client's own",
    "the class": "surrogates show the class that a client holds, not its samples",
    "nothing": "surrogates show neither samples nor classes",
    "no surrogate": "no surrogates could be fitted",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """One input as the page shows it."""

    said: str
    """What it is, for those who cannot see it."""
    image: str = ""
    """An image as a data URI; empty for signals."""
    lines: tuple[str, ...] = ()
    """A signal's channels as points of SVG lines."""
    label: str = ""
    """The class of an original."""


def write_page(audit: PrivacyAudit, path: Path) -> Path:
    """Write the page and return its path."""
    write_whole(path, build_page(audit).encode())
    return path


def build_page(audit: PrivacyAudit) -> str:
    """Return the page as HTML; it needs no other file and no network."""
    base = environment()
    own = jinja2.PackageLoader("unstale.audit", ".")
    page = base.overlay(loader=jinja2.ChoiceLoader([own, *filter(None, [base.loader])]))
    css = (files("unstale.report.html") / "page.css").read_text(encoding="utf-8")
    parts = [
        {
            "size": size,
            "strips": _strips(size),
            "table": _table(audit, size),
            "note": _note(size),
        }
        for size in audit.sizes
    ]
    return page.get_template("page.html").render(
        audit=audit,
        lede=_lede(audit),
        facts=_facts(audit),
        parts=parts,
        css=css,
        colours=(css_variables(0), css_variables(1)),
        styles={},
        plots={},
        version=__version__,
    )


def _lede(audit: PrivacyAudit) -> str:
    groups: dict[str, list[str]] = {}
    for verdict in audit.verdicts:
        groups.setdefault(verdict.word, []).append(str(verdict.samples))
    clauses = [
        f"with {' or '.join(sizes)} sample{'s' * (sizes != ['1'])} a client, {_LEDES[word]}"
        for word, sizes in groups.items()
    ]
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}."


def _facts(audit: PrivacyAudit) -> list[tuple[str, str]]:
    return [
        ("Attacked", f"{audit.attacked} of {audit.clients} clients"),
        ("Updates converted", str(audit.updates)),
        ("Local steps", str(audit.steps)),
        ("Protection", protected(audit.protection)),
        ("Time", f"{audit.seconds:.0f} s on {audit.device}"),
    ]


def _note(size: Size) -> str:
    shares = (
        ("the surrogate's labels", size.labels.learned),
        ("the last layer of the update", size.labels.analytic),
        ("guessing even classes", size.labels.even),
    )
    told = [f"{name} {100 * value:.0f} %" for name, value in shares if value == value]
    some = next(iter(size.rows.values()), None)
    among = "" if some is None else f" An original is looked for among {some.candidates} samples."
    failed = f" {size.failed} clients have no surrogate: no fit succeeded." if size.failed else ""
    return f"Labels that are told right: {', '.join(told)}.{among}{failed}"


def _table(audit: PrivacyAudit, size: Size) -> Table:
    measures = [m for m in MEASURES if audit.has(m[0])]
    columns = tuple(Column(f"{head} {'↓' if less else '↑'}") for _, head, _, less in measures)
    rows = tuple(
        Row(name, tuple(_cell(quality, m) for m in measures), is_method=False, oracle=_plain(name))
        for name, quality in size.rows.items()
    )
    return Table("Recovered by", columns, rows)


def _cell(quality: Quality, measure: tuple[str, str, int, bool]) -> Cell:
    return Cell(written(getattr(quality, measure[0]), measure[2]))


def _plain(name: str) -> bool:
    """Tell whether a row is a baseline."""
    return name not in (FIRST, LAST, UPDATE, ORIGINAL)


def _strips(size: Size) -> list[dict[str, object]]:
    shown = [strip for strip in size.strips if kind_of(strip.shape)]
    return [{"name": s.name, "baseline": _plain(s.name), "tiles": _tiles(s)} for s in shown]


def _tiles(strip: Strip) -> list[Picture]:
    samples = SurrogateSamples(
        strip.name, strip.shape, 0.0, 1.0, len(strip.x), strip.x, tuple(() for _ in strip.x)
    )
    found = []
    for i in range(len(strip.x)):
        said = f"{strip.name}, sample {i + 1}"
        label = f"class {strip.labels[i]}" if strip.labels else ""
        if kind_of(strip.shape) == "image":
            found.append(Picture(said, image=png_uri(encode_png(samples, i)), label=label))
        else:
            found.append(Picture(said, lines=signal_lines(samples, i), label=label))
    return found
