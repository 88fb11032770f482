"""`unstale methods`: what there is, and what each can be told."""

import json

import click

from unstale.cli.options import HELP, plugin_option


@click.command(context_settings=HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
@plugin_option
def methods(name: str | None, as_json: bool, plugins: tuple[str, ...]) -> None:
    """List every method and aggregator, or show the settings of one."""
    from unstale.methods.aggregator_registry import AGGREGATORS
    from unstale.methods.registry import METHODS

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
    width = max(map(len, [*METHODS, *AGGREGATORS]))
    for known, spec in METHODS.items():
        click.echo(f"{known:<{width}}  {spec.does}")
    click.echo('\nAggregators, given to a method as `aggregator = "NAME"`:\n')
    for known, one in AGGREGATORS.items():
        click.echo(f"{known:<{width}}  {one.does}")
    click.echo("\n`unstale methods NAME` shows its settings.")


def _show_aggregator(name: str, as_json: bool) -> None:
    from unstale.cli.method_settings import lines_of_part, settings_of
    from unstale.methods.aggregator_registry import AGGREGATORS

    spec = AGGREGATORS[name]
    if as_json:
        described = {
            "name": name,
            "does": spec.does,
            "paper": spec.paper,
            "settings": settings_of(spec.aggregator),
        }
        click.echo(json.dumps(described, indent=2, ensure_ascii=False))
        return
    click.echo(f"{name}, an aggregator: {spec.does}\nPaper: {spec.paper}\n")
    for line in lines_of_part(spec.aggregator):
        click.echo(line)


def _show(name: str, as_json: bool) -> None:
    from unstale.cli.method_settings import grouped_settings, lines_of, plain_settings
    from unstale.methods.aggregator_registry import AGGREGATORS
    from unstale.methods.registry import find

    if name in AGGREGATORS:
        _show_aggregator(name, as_json)
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
