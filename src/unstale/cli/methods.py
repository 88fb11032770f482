"""`unstale methods`: what there is, and what each can be told."""

import json
from typing import TYPE_CHECKING

import click

from unstale.cli.options import HELP, plugin_option

if TYPE_CHECKING:
    from unstale.methods.named_parts import NamedPart


@click.command(context_settings=HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
@plugin_option
def methods(name: str | None, as_json: bool, plugins: tuple[str, ...]) -> None:
    """List every method, aggregator and server optimizer, or show the settings of one."""
    from unstale.methods.aggregator_registry import AGGREGATORS
    from unstale.methods.registry import METHODS
    from unstale.methods.server_optimizer_registry import SERVER_OPTIMIZERS

    if plugins:
        from unstale.experiment.importing import load_plugin

        for plugin in plugins:
            load_plugin(plugin)

    if name is not None:
        _show(name, as_json)
        return
    if as_json:
        rows = {n: {"does": spec.does, "paper": spec.paper} for n, spec in METHODS.items()}
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(map(len, [*METHODS, *AGGREGATORS, *SERVER_OPTIMIZERS]))
    for known, spec in METHODS.items():
        click.echo(f"{known:<{width}}  {spec.does}")
    click.echo('\nAggregators, given to a method as `aggregator = "NAME"`:\n')
    for known, one in AGGREGATORS.items():
        click.echo(f"{known:<{width}}  {one.does}")
    click.echo(
        '\nServer optimizers, given to an experiment as `[optimizer]` with `name = "NAME"`:\n'
    )
    for known, one in SERVER_OPTIMIZERS.items():
        click.echo(f"{known:<{width}}  {one.does}")
    click.echo("\n`unstale methods NAME` shows its settings.")


def _show_part(name: str, kind: str, spec: "NamedPart", as_json: bool) -> None:
    from unstale.cli.method_settings import lines_of_part, settings_of

    if as_json:
        described = {
            "name": name,
            "does": spec.does,
            "paper": spec.paper,
            "settings": settings_of(spec.cls),
        }
        click.echo(json.dumps(described, indent=2, ensure_ascii=False))
        return
    click.echo(f"{name}, {kind}: {spec.does}\nPaper: {spec.paper}\n")
    for line in lines_of_part(spec.cls):
        click.echo(line)


def _show(name: str, as_json: bool) -> None:
    from unstale.cli.method_settings import grouped_settings, lines_of, plain_settings
    from unstale.methods.aggregator_registry import AGGREGATORS
    from unstale.methods.registry import find
    from unstale.methods.server_optimizer_registry import SERVER_OPTIMIZERS

    for kind, parts in (("an aggregator", AGGREGATORS), ("a server optimizer", SERVER_OPTIMIZERS)):
        if name in parts:
            _show_part(name, kind, parts[name], as_json)
            return
    spec = find(name)
    if as_json:
        described = {
            "name": name,
            "does": spec.does,
            "paper": spec.paper,
            "settings": plain_settings(spec),
            "groups": grouped_settings(spec),
            "presets": spec.presets,
        }
        click.echo(json.dumps(described, indent=2, ensure_ascii=False, default=str))
        return
    click.echo(f"{name}: {spec.does}\nPaper: {spec.paper}\n")
    for line in lines_of(spec):
        click.echo(line)
