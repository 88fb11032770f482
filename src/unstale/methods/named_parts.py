"""Parts of a method by name: how one is described, and how it is made from a table of settings.

Aggregators and server optimizers are given in the same three ways, in Python and in experiment
files: by name, as a table with `name` and settings, or as an object.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.lazy import load_named
from unstale.methods.groups import make_part


@dataclasses.dataclass(frozen=True, slots=True)
class NamedPart:
    """How a named part is made, and how it is described."""

    does: str
    """One line for tables and `unstale methods`."""
    paper: str
    """Where it was published."""
    where: str
    """The class, as `"package.module:Class"`; it is imported when it is needed."""

    @property
    def cls(self) -> type[Any]:
        """The class."""
        found: type[Any] = load_named(self.where)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class NamedParts:
    """All parts of one kind by name.

    Example:
        >>> drop = NamedPart("Drops old updates.", "-", "unstale.methods.drop:Drop")
        >>> parts = NamedParts("filter", {"drop": drop}, "Drop(5)")
        >>> parts.made({"name": "drop", "max_staleness": 3})
        Drop(max_staleness=3)
        >>> parts.made("dorp")
        Traceback (most recent call last):
        ...
        unstale.errors.UnknownNameError: A filter should be one of: drop. Found 'dorp'. Did you \
mean 'drop'?
    """

    kind: str
    """What such a part is called, for messages."""
    known: Mapping[str, NamedPart]
    """The parts."""
    such_as: str
    """An object of the kind, for messages."""
    key: str = ""
    """The setting that takes one, if it is not called as the kind."""

    def made(self, value: Any) -> Any:
        """Return the part of that name, or of that table; None for what is neither.

        Raises:
            UnknownNameError: If there is no such part or setting; names the nearest.
            ConfigError: If the table has no name.
        """
        if isinstance(value, str):
            return self.named(value, {})
        if not isinstance(value, Mapping):
            return None
        settings = dict(value)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(
                f"A table of {self._one} should have its `name`, one of: "
                f"{', '.join(self.known)}. Found {dict(value)!r}."
            )
        return self.named(name, settings)

    def named(self, name: str, settings: Mapping[str, Any]) -> Any:
        """Return the part of that name with the given settings.

        Raises:
            UnknownNameError: If there is no such part or setting; names the nearest.
        """
        if name not in self.known:
            raise UnknownNameError(self._one.capitalize(), str(name), self.known)
        cls = self.known[name].cls
        fields = [field.name for field in dataclasses.fields(cls)]
        for key in settings:
            if key not in fields:
                raise UnknownNameError(f"A setting of {self.kind} '{name}'", key, fields)
        return make_part(cls, settings, name)

    def refuse(self, value: Any) -> ConfigError:
        """Return the error about an object that is no such part."""
        return ConfigError(
            f"`{self.key or self.kind}` should be a name, a table with `name` and settings, or "
            f"{self._one} such as `{self.such_as}`. Found {value!r}."
        )

    @property
    def _one(self) -> str:
        return f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}"
