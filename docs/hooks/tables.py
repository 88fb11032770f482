"""Tables that are made from the code when the pages are built, so that they cannot drift.

A page asks for one with a comment on a line of its own: `<!-- table: methods -->`, or with an
argument `<!-- table: settings unstale.LocalSpec -->`.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

# The sources beside these pages, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from unstale import data, models
from unstale.cli.main import cli
from unstale.data.registry import find_source
from unstale.data.source import Derived
from unstale.inversion import Inversion
from unstale.inversion.settings import THEMES
from unstale.methods import AGGREGATORS, METHODS, SERVER_OPTIMIZERS, MethodSpec
from unstale.methods.groups import groups_of
from unstale.methods.named_parts import NamedPart
from unstale.models import registry as model_registry
from unstale.sim import attackers, availability, cohort, drift, latency, partition

MARK = re.compile(r"^<!-- table: (\w+)(?: (\S+))? -->$", re.MULTILINE)

SCENARIO_PARTS: dict[str, Mapping[str, type[Any]]] = {
    "partition": partition.KINDS,
    "latency": latency.KINDS,
    "cohort": cohort.KINDS,
    "availability": availability.KINDS,
    "drift": drift.KINDS,
    "attackers": attackers.KINDS,
}


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put the tables in their places."""
    return MARK.sub(lambda match: make(match[1], match[2]), markdown)


def make(name: str, argument: str | None) -> str:
    """Return one table as Markdown."""
    return TABLES[name](argument) if argument else TABLES[name]()


# --- what the tables are made of ------------------------------------------------------


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstrings under a dataclass's fields, inherited ones included."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        node = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for field, doc in pairwise(node.body if isinstance(node, ast.ClassDef) else []):
            match field, doc:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(inspect.cleandoc(text).split())
    return found


def paragraphs(thing: object) -> str:
    """Return a docstring's prose; examples are left out, references become a line."""
    text = inspect.getdoc(thing) or ""
    prose, *sections = re.split(r"^(Example|Args|Raises|References):\n", text, flags=re.MULTILINE)
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title == "References":
            prose += f"\nReference: {' '.join(body.split())}\n"
    return prose.strip()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in r)} |" for r in lines)


def settings_table(*classes: type[Any], only: Sequence[str] | None = None) -> str:
    """Return the settings of dataclasses: name, default, meaning.

    Groups of settings are left out: each has a table of its own, by `group_tables`.

    Args:
        classes: The dataclasses.
        only: The settings to show; all when not given.
    """
    rows = []
    for cls in classes:
        docs, groups = field_docs(cls), groups_of(cls)
        for field in dataclasses.fields(cls):
            if field.name in groups or (only is not None and field.name not in only):
                continue
            default: Any = field.default
            if default is dataclasses.MISSING:
                made = field.default_factory is not dataclasses.MISSING
                default = field.default_factory() if made else "required"  # type: ignore[misc]
            rows.append([f"`{field.name}`", _value(default), docs.get(field.name, "")])
    return table(["setting", "default", "meaning"], rows) if rows else "No settings."


def group_tables(cls: type[Any]) -> str:
    """Return a heading and a table for every group of settings; nothing where there is none."""
    docs = field_docs(cls)
    return "\n\n".join(
        f"#### `[{name}]`\n\n{docs[name]}\n\n{_group_table(group)}"
        for name, group in groups_of(cls).items()
    )


def _group_table(group: type[Any]) -> str:
    if group is not Inversion:
        return settings_table(group)
    return "\n\n".join(
        f"*{theme[0].upper()}{theme[1:]}*\n\n{settings_table(group, only=keys)}"
        for theme, keys in THEMES.items()
    )


def _value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str) and value != "required" else f"`{value}`"


# --- the tables -----------------------------------------------------------------------


def methods_table() -> str:
    """Every method in a row."""
    rows = ([f"[`{n}`](methods.md#{n})", r.does, r.paper] for n, r in METHODS.items())
    return table(["method", "what it does", "paper"], rows)


def method_list() -> str:
    """Every method with its parts and settings."""
    parts = []
    for name, spec in METHODS.items():
        made_of = f"`{spec.compensator.__name__}` and `{spec.aggregator.__name__}`"
        parts.append(
            f"### `{name}` {{ #{name} }}\n\n{spec.does} Paper: {spec.paper}. "
            f"Compensator and aggregator: {made_of}.{presets_of(spec)}\n\n"
            f"{settings_table(spec.compensator, spec.aggregator)}"
        )
        if groups := group_tables(spec.compensator):
            parts.append(groups)
    return "\n\n".join(parts)


def parts_table(kind: str, parts: Mapping[str, NamedPart]) -> str:
    """Every named part of a kind in a row."""
    rows = ([f"[`{n}`](#{n})", a.does, a.paper] for n, a in parts.items())
    return table([kind, "what it does", "paper"], rows)


def part_list(parts: Mapping[str, NamedPart]) -> str:
    """Every named part of a kind with its settings and what its docstring says of it."""
    return "\n\n".join(
        f"### `{name}` {{ #{name} }}\n\n{paragraphs(spec.cls)}\n\n{settings_table(spec.cls)}"
        for name, spec in parts.items()
    )


def presets_of(spec: MethodSpec) -> str:
    """A sentence on the presets of a method; nothing where it has none."""
    return f" Presets: {', '.join(f'`{name}`' for name in spec.presets)}." * bool(spec.presets)


def method_docstrings() -> str:
    """The docstrings of the modules that methods are made of, formulas included."""
    members: dict[str, list[type[Any]]] = {}
    for spec in METHODS.values():
        for part in (spec.compensator, spec.aggregator):
            listed = members.setdefault(part.__module__, [])
            if part not in listed:
                listed.append(part)
    for one in AGGREGATORS.values():
        listed = members.setdefault(one.cls.__module__, [])
        if one.cls not in listed:
            listed.append(one.cls)
    blocks = []
    for module, classes in members.items():
        # The prose alone: settings are in the tables above, and functions in the code.
        hidden = {name for cls in classes for name in dir(cls) if not name.startswith("_")}
        filters = ", ".join(f'"!^{name}$"' for name in sorted(hidden))
        blocks.append(
            f"::: {module}\n    options:\n      heading_level: 3\n      show_root_full_path: true\n"
            f"      members: [{', '.join(cls.__name__ for cls in classes)}]\n"
            f'      filters: ["!^_", {filters}]\n'
        )
    return "\n".join(blocks)


def kinds_list(part: str) -> str:
    """Every kind of one part of a scenario, with its settings."""
    blocks = [
        f"### `{kind}` {{ #{part}-{kind} }}\n\n{paragraphs(cls)}\n\n{settings_table(cls)}"
        for kind, cls in SCENARIO_PARTS[part].items()
    ]
    return "\n\n".join(blocks)


def settings_of(path: str) -> str:
    """The settings of one dataclass, by its full name."""
    module, _, name = path.rpartition(".")
    return settings_table(getattr(importlib.import_module(module), name))


def data_table() -> str:
    """Every data set: what it is, and where its files come from."""
    rows = []
    for name in data.names():
        source = find_source(name)
        if isinstance(source, Derived):
            parts = " and ".join(f"`{part}`" for part in source.of)
            rows.append([f"`{name}`", source.summary, f"made from {parts} when it is loaded"])
            continue
        urls = [url for download in source.downloads for url in download.urls]
        hosts = ", ".join(sorted({str(urlsplit(url).hostname) for url in urls}))
        origin = f"`unstale data fetch {name}`, from {hosts}" if hosts else source.obtain
        rows.append([f"`{name}`", source.summary, origin or "embedded"])
    return table(["name", "what", "where it comes from"], rows)


def data_files() -> str:
    """The files of every data set, and the folders in which they may lie."""
    lines = []
    for name in data.names():
        source = find_source(name)
        for layout in () if isinstance(source, Derived) else source.layouts:
            if layout.files:
                files = ", ".join(f"`{file}`" for file in layout.files)
                folders = ", ".join(f"`{folder}`" for folder in layout.folders)
                lines.append(f"- **{name}**: {files}; in one of: {folders}")
    return "\n".join(lines)


def models_table() -> str:
    """Every model with its settings."""
    rows = []
    for name in models.names():
        builder = model_registry.BUILDERS[name]
        settings = [
            f"`{p.name} = {list(p.default) if isinstance(p.default, tuple) else p.default}`"
            for p in inspect.signature(builder).parameters.values()
            if p.kind is p.KEYWORD_ONLY
        ]
        first = (inspect.getdoc(builder) or "").partition("\n")[0]
        rows.append([f"`{name}`", first, ", ".join(settings) or "none"])
    return table(["name", "what", "settings"], rows)


def commands_list() -> str:
    """The help text of every command."""
    blocks = []

    def visit(command: click.Command, name: str, level: int) -> None:
        # A bare context does not read the command's settings, and the command would keep the
        # help option it meets here: without them `-h` would be gone for the whole process.
        settings = {**command.context_settings, "terminal_width": 88, "max_content_width": 88}
        context = click.Context(command, info_name=name, **settings)
        blocks.append(f"{'#' * level} `{name}`\n\n```text\n{command.get_help(context)}\n```")
        if isinstance(command, click.Group):
            for below, child in command.commands.items():
                visit(child, f"{name} {below}", min(level + 1, 3))

    visit(cli, "unstale", 2)
    return "\n\n".join(blocks)


TABLES: dict[str, Callable[..., str]] = {
    "aggregator_list": partial(part_list, AGGREGATORS),
    "aggregators": partial(parts_table, "aggregator", AGGREGATORS),
    "commands": commands_list,
    "data": data_table,
    "data_files": data_files,
    "kinds": kinds_list,
    "method_docstrings": method_docstrings,
    "method_list": method_list,
    "methods": methods_table,
    "models": models_table,
    "optimizer_list": partial(part_list, SERVER_OPTIMIZERS),
    "optimizers": partial(parts_table, "server optimizer", SERVER_OPTIMIZERS),
    "settings": settings_of,
}
