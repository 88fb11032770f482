"""One colour and one dash per method, the same in every chart, page and PNG.

The first six hues are Okabe and Ito's, which stay apart for colour-blind readers, each
shifted until it stands out against the page (3:1 at least) and from the others under
simulated colour blindness; violet and brown were chosen to be far from those. From the
ninth method on the hues come again with another dash, so two methods never look the same.
The oracle is a ceiling, not a competitor: grey and dashed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unstale.report.records import Method

# blue, vermilion, green, pink, amber, sky, violet, brown: (on light paper, on dark paper)
HUES = (
    ("#0567a8", "#4ba6e6"),
    ("#bb3f00", "#ff8248"),
    ("#00875c", "#2fbf94"),
    ("#ce6ea9", "#fca7df"),
    ("#b58d03", "#f0cf5a"),
    ("#289bd8", "#99e0ff"),
    ("#7c2ad0", "#9d62ff"),
    ("#6b2410", "#a5714f"),
)
ORACLE_HUE = ("#6b6f76", "#a4a9b2")
PAPER = ("#ffffff", "#1a1d22")

# SVG dash patterns; the first is a solid line.
DASHES = ("", "7 3", "2 3", "9 3 2 3")
# Runs side by side may have one oracle each.
ORACLE_DASHES = ("5 4", "2 2", "9 3 2 3", "12 3")


@dataclass(frozen=True, slots=True)
class Style:
    """How a method's lines look."""

    hue: int | None
    """A position in `HUES`; None for the oracle."""
    dash: str
    """An SVG dash pattern; empty for a solid line."""

    @property
    def css(self) -> str:
        """The style declaration that carries the colour through both themes."""
        return f"--c:var(--{'oracle' if self.hue is None else f'hue{self.hue}'})"

    @property
    def on_light(self) -> str:
        """The colour on light paper, for PNGs."""
        return (ORACLE_HUE if self.hue is None else HUES[self.hue])[0]


def assign_styles(methods: Sequence[Method]) -> Mapping[str, Style]:
    """Give each method its style, by label, in the order the config lists them.

    Example:
        >>> methods = [Method("no delay", "no_delay"), Method("plain", "unweighted")]
        >>> styles = assign_styles(methods)
        >>> styles["no delay"].hue, styles["plain"].hue
        (None, 0)
    """
    styles = {}
    position = oracles = 0
    for method in methods:
        if method.is_oracle:
            styles[method.label] = Style(None, ORACLE_DASHES[oracles % len(ORACLE_DASHES)])
            oracles += 1
            continue
        cycle, hue = divmod(position, len(HUES))
        styles[method.label] = Style(hue, DASHES[cycle % len(DASHES)])
        position += 1
    return styles


def css_variables(theme: int) -> str:
    """Return the hues as CSS custom properties; theme 0 is light, 1 dark."""
    hues = [f"--hue{i}:{pair[theme]}" for i, pair in enumerate(HUES)]
    return ";".join([*hues, f"--oracle:{ORACLE_HUE[theme]}", f"--paper:{PAPER[theme]}"])
