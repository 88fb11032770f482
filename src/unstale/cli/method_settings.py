"""The settings of a method for `unstale methods NAME`: grouped, with defaults and one line each."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from unstale.inversion import Inversion
from unstale.inversion.settings import THEMES
from unstale.methods import MethodSpec
from unstale.methods.groups import groups_of

# A setting's name, and its default with what it is.
Settings = dict[str, dict[str, Any]]


def plain_settings(spec: MethodSpec) -> Settings:
    """Return the settings that stand in no group."""
    found: Settings = {}
    for part in (spec.compensator, spec.aggregator):
        groups = groups_of(part)
        found |= {k: v for k, v in settings_of(part).items() if k not in groups}
    return found


def grouped_settings(spec: MethodSpec) -> dict[str, dict[str, Any]]:
    """Return each group with what it is (`about`) and its `settings`."""
    about = _field_docstrings(spec.compensator)
    return {
        name: {"about": about.get(name, ""), "settings": settings_of(group)}
        for name, group in groups_of(spec.compensator).items()
    }


def lines_of(spec: MethodSpec) -> Iterator[str]:
    """Yield what `unstale methods NAME` prints of settings and presets, line by line."""
    plain, groups = plain_settings(spec), grouped_settings(spec)
    if not plain and not groups:
        yield "No settings."
    yield from _lines(plain, indent="  ")
    types = groups_of(spec.compensator)
    for name, group in groups.items():
        yield f"\n[{name}]  {group['about']}"
        themes = THEMES if types[name] is Inversion else {"": tuple(group["settings"])}
        for theme, keys in themes.items():
            if theme:
                yield f"  # {theme}"
            yield from _lines({key: group["settings"][key] for key in keys}, indent="  ")
    if spec.presets:
        yield '\npreset = "NAME" sets several at once; settings given beside it take precedence:'
    for preset, changes in spec.presets.items():
        listed = ", ".join(f"{key} = {_toml(value)}" for key, value in _flat(changes))
        told = f"{preset}: {listed or 'the defaults above'}"
        yield from textwrap.wrap(told, 100, initial_indent="  ", subsequent_indent="      ")


def lines_of_part(part: type[Any]) -> Iterator[str]:
    """Yield what `unstale methods NAME` prints of the settings of a named part."""
    settings = settings_of(part)
    if not settings:
        yield "No settings."
    yield from _lines(settings, indent="  ")


def _lines(settings: Settings, indent: str) -> Iterator[str]:
    for key, setting in settings.items():
        yield f"{indent}{key} = {_toml(setting['default'])}"
        yield from textwrap.wrap(
            setting["about"], 100, initial_indent=indent + "    ", subsequent_indent=indent + "    "
        )


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _toml(value: Any) -> str:
    """Return a value as it stands in an experiment file; TOML has no null."""
    if value is None:
        return "(not given)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def settings_of(part: type[Any]) -> Settings:
    """Return a part's fields with their defaults and the docstrings that stand under them."""
    about = _field_docstrings(part)
    found: Settings = {}
    for field in dataclasses.fields(part):
        default = field.default
        if default is dataclasses.MISSING:
            factory = field.default_factory
            default = factory() if factory is not dataclasses.MISSING else "(required)"
        found[field.name] = {"default": default, "about": about.get(field.name, "")}
    return found


def _field_docstrings(part: type[Any]) -> dict[str, str]:
    """Return what stands under the fields of a class and of those it inherits from."""
    found: dict[str, str] = {}
    for cls in reversed(part.__mro__):
        if dataclasses.is_dataclass(cls):
            found |= _own_docstrings(cls)
    return found


def _own_docstrings(part: type[Any]) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
    except (OSError, TypeError):
        return {}  # made at a prompt, or shipped without sources: settings still show
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, doc in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            found[field.target.id] = inspect.cleandoc(str(doc.value.value)).replace("\n", " ")
    return found
