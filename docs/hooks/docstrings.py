"""A griffe extension: shows the `Example:` of our docstrings as code."""

import re
from typing import Any

import griffe

# Griffe knows the plural only and would take `>>>` for three nested quotations.
EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the section in every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
