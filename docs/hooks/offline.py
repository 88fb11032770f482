"""Makes sure that no page loads anything from the network."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

# What a browser loads by itself. A link that a reader may follow is not among it.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon))"""
    r"""[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def on_post_build(config: Any, **kwargs: Any) -> None:
    """Look through every page and style sheet of the site."""
    site = Path(config["site_dir"])
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        found = LOADED.search(path.read_text(encoding="utf-8"))
        if found:
            place = path.relative_to(site)
            raise PluginError(f"{place} should load nothing from the network. Found {found[0]!r}.")
