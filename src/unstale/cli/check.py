"""`unstale check`: does conversion work on the model and the data of an experiment?"""

import json
from typing import TYPE_CHECKING

import click

from unstale.cli.options import HELP, plugin_option

if TYPE_CHECKING:
    from unstale.inversion import InputSpec


@click.command(context_settings=HELP)
@click.argument("experiment", default="quickstart")
@click.option("--method", metavar="LABEL", help="The `convert` of the file to check, by label.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting.")
@plugin_option
@click.option("--staleness", type=int, help="Versions that updates are late [the file's latency].")
@click.option("--clients", type=int, default=20, show_default=True, help="Clients that take part.")
@click.option("--conversions", type=int, default=10, show_default=True, help="How many to try.")
@click.option("--random", "random_data", is_flag=True, help="Random inputs of the same shape.")
@click.option("--shape", metavar="1,28,28", help="With --random: the shape, if data is not here.")
@click.option("--classes", type=int, help="With --shape: the number of classes.")
@click.option("--seed", type=int, help="Instead of the file's first seed.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, …")
@click.option("--data", "data_root", metavar="DIR", help="The data root; else UNSTALE_DATA.")
@click.option("--json", "as_json", is_flag=True, help="Print everything for programs on stdout.")
def check(
    experiment: str,
    method: str | None,
    overrides: tuple[str, ...],
    plugins: tuple[str, ...],
    staleness: int | None,
    clients: int,
    conversions: int,
    random_data: bool,
    shape: str | None,
    classes: int | None,
    seed: int | None,
    device: str,
    data_root: str | None,
    as_json: bool,
) -> None:
    """Try ten conversions on the model, data and recipe of EXPERIMENT, and say if they help.

    EXPERIMENT is what `unstale run` takes. Some of its clients train without delay, and updates
    of the slow ones are converted some versions later, when the true updates are known.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from unstale.errors import DataError
    from unstale.experiment import check_experiment, load_experiment

    config = load_experiment(experiment, overrides=overrides, plugins=plugins)
    given = _inputs(random_data, shape, classes)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(f"Checking {config.name}", total=None)
        try:
            found = check_experiment(
                config,
                method=method,
                seed=seed,
                clients=clients,
                staleness=staleness,
                conversions=conversions,
                random_inputs=random_data if given is None else given,
                device=device,
                data_root=data_root,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except DataError as error:
            raise DataError(
                f"{error} Or check random data of the same shape: --random --shape 1,28,28 "
                "--classes 10."
            ) from error
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        Console().print(found.render())


def _inputs(random_data: bool, shape: str | None, classes: int | None) -> "InputSpec | None":
    """Return what --shape and --classes describe, in [0, 1]; None where they are not given."""
    from unstale.errors import ConfigError
    from unstale.inversion import InputSpec

    if shape is None and classes is None:
        return None
    if not random_data or shape is None or classes is None:
        raise ConfigError(
            "--shape and --classes should be given together, and with --random. "
            "Found only some of them. Give all three, or none."
        )
    try:
        sizes = tuple(int(part) for part in shape.split(","))
    except ValueError as error:
        raise ConfigError(
            f"--shape should be whole numbers with commas between, as 1,28,28. Found {shape!r}."
        ) from error
    return InputSpec(sizes, classes, 0.0, 1.0)
