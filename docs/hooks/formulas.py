r"""Formulas: the TeX of docstrings and pages becomes MathML, which browsers draw themselves.

No script is loaded for it. Only what we use of TeX is known; anything else fails the
build, so that no reader meets a raw command. Formulas stand between `$` signs.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.exceptions import PluginError

TOKEN = re.compile(r"\\[A-Za-z]+|\\[,;]|\d+(?:\.\d+)?|\S")
LETTERS = {
    "alpha": "α",
    "beta": "β",
    "Delta": "Δ",
    "epsilon": "ε",
    "eta": "η",
    "gamma": "γ",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
}
SIGNS = {
    "approx": "≈",
    "cdot": "·",
    "dots": "…",
    "ge": "≥",
    "in": "∈",
    "infty": "∞",
    "langle": "⟨",
    "le": "≤",
    "ln": "ln",
    "lVert": "‖",
    "max": "max",
    "min": "min",
    "odot": "⊙",
    "pm": "±",
    "rangle": "⟩",
    "rVert": "‖",
    "sim": "∼",
    "sum": "∑",
    "times": "×",
}
ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~"}
SPACES = {"\\,": "0.17em", "\\;": "0.28em", "\\quad": "1em", "\\qquad": "2em"}

SPAN = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


class Tokens:
    """The tokens of one formula, read one after the other."""

    def __init__(self, tex: str) -> None:
        self.tex = tex
        self._tokens: Iterator[str] = iter(TOKEN.findall(tex))
        self.next = next(self._tokens, "")

    def take(self) -> str:
        """Return the next token and go on; an empty one at the end."""
        token, self.next = self.next, next(self._tokens, "")
        return token

    def fail(self, what: str) -> ValueError:
        """Return the error that names the formula."""
        return ValueError(f"The formula ${self.tex}$ should be simple TeX. Found {what}.")


def to_mathml(tex: str, *, block: bool = False) -> str:
    """Return a formula as a `<math>` element.

    Raises:
        ValueError: If it holds something that is not known here.
    """
    tokens = Tokens(tex.strip())
    row = _row(tokens, "", block)
    display = ' display="block"' if block else ""
    return f"<math{display}>{row}</math>"


def _row(tokens: Tokens, end: str, block: bool) -> str:
    parts = []
    while tokens.next != end:
        if not tokens.next:
            raise tokens.fail("an open brace")
        parts.append(_scripted(tokens, block))
    tokens.take()
    return f"<mrow>{''.join(parts)}</mrow>"


def _scripted(tokens: Tokens, block: bool) -> str:
    is_sum = tokens.next in ("\\sum", "\\min")  # what they run over stands below in a block
    base = _atom(tokens, block)
    scripts: dict[str, str] = {}
    while tokens.next in ("_", "^"):
        mark = tokens.take()
        scripts[mark] = _atom(tokens, block)
    if not scripts:
        return base
    both = "munderover" if is_sum and block else "msubsup"
    if len(scripts) == 2:
        return f"<{both}>{base}{scripts['_']}{scripts['^']}</{both}>"
    ((mark, script),) = scripts.items()
    one = {"_": "munder", "^": "mover"} if is_sum and block else {"_": "msub", "^": "msup"}
    return f"<{one[mark]}>{base}{script}</{one[mark]}>"


def _atom(tokens: Tokens, block: bool) -> str:
    symbol = tokens.take()
    name = symbol.removeprefix("\\")
    if symbol == "{":
        return _row(tokens, "}", block)
    if symbol in SPACES:
        return f'<mspace width="{SPACES[symbol]}"/>'
    if symbol.startswith("\\"):
        if name in LETTERS:
            return f"<mi>{LETTERS[name]}</mi>"
        if name in SIGNS:
            fence = ' stretchy="false"' if SIGNS[name] in "⟨⟩‖" else ""
            return f"<mo{fence}>{SIGNS[name]}</mo>"
        if name in ACCENTS:
            under = _atom(tokens, block)
            return f'<mover accent="true">{under}<mo stretchy="false">{ACCENTS[name]}</mo></mover>'
        if name == "frac":
            return f"<mfrac>{_atom(tokens, block)}{_atom(tokens, block)}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{_atom(tokens, block)}</msqrt>"
        raise tokens.fail(f"'{symbol}', which docs/hooks/formulas.py does not know")
    if not symbol or symbol in "_^}&$#%~\\":
        raise tokens.fail(f"'{symbol}' where a symbol should be")
    if symbol[0].isdigit():
        return f"<mn>{symbol}</mn>"
    if symbol.isalpha():
        return f"<mi>{symbol}</mi>"
    # A fence that grows with its content would jump out of a line of text.
    stretchy = ' stretchy="false"' if symbol in "()[]|/" else ""
    return f"<mo{stretchy}>{html.escape('−' if symbol == '-' else symbol)}</mo>"


def on_page_content(content: str, page: Any, **kwargs: Any) -> str:
    """Put MathML in the place of every formula of a page."""

    def put(match: re.Match[str], *, block: bool) -> str:
        return to_mathml(html.unescape(match[1]), block=block)

    try:
        content = SPAN.sub(lambda m: put(m, block=False), content)
        return BLOCK.sub(lambda m: put(m, block=True), content)
    except ValueError as error:
        raise PluginError(f"{page.file.src_path}: {error}") from error
