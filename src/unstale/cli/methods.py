"""`unstale methods`: what there is, and what each can be told."""

import ast
import dataclasses
import inspect
import json
import textwrap
from itertools import pairwise
from typing import Any

import click

from unstale.cli.options import HELP


@click.command(context_settings=HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
def methods(name: str | None, as_json: bool) -> None:
    """List every method, or show the settings of one."""
    from unstale.errors import UnknownNameError
    from unstale.methods import METHODS

    if name is None:
        if as_json:
            rows = {n: {"does": r.does, "paper": r.paper} for n, r in METHODS.items()}
            click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
            return
        width = max(map(len, METHODS))
        for known, recipe in METHODS.items():
            click.echo(f"{known:<{width}}  {recipe.does}")
        click.echo("\n`unstale methods NAME` shows its settings.")
        return
    if name not in METHODS:
        raise UnknownNameError("A method", name, METHODS)
    recipe = METHODS[name]
    settings = _settings(recipe.compensator) | _settings(recipe.aggregator)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "name": name,
                    "does": recipe.does,
                    "paper": recipe.paper,
                    "settings": settings,
                    "presets": {known: dict(changes) for known, changes in recipe.presets.items()},
                },
                indent=2,
                ensure_ascii=False,
                default=str,
            )
        )
        return
    click.echo(f"{name}: {recipe.does}\nPaper: {recipe.paper}\n")
    if not settings:
        click.echo("No settings.")
    for key, setting in settings.items():
        click.echo(f"  {key} = {setting['default']!r}\n      {setting['about']}")
    for known, changes in recipe.presets.items():
        listed = ", ".join(f"{key} = {value!r}" for key, value in changes.items())
        click.echo(f"  preset = {known!r}\n      {listed or 'The settings above.'}")


def _settings(part: type[Any]) -> dict[str, dict[str, Any]]:
    """Return a part's fields with their defaults and the docstrings that stand under them."""
    about = _field_docstrings(part)
    found: dict[str, dict[str, Any]] = {}
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
