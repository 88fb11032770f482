"""`unstale audit`: what can the server see of its clients' data?"""

import json
from pathlib import Path

import click

from unstale.cli.options import HELP, OutFile


@click.command(context_settings=HELP)
@click.argument("experiment", default="quickstart")
@click.option("--method", metavar="LABEL", help="The `convert` of the file to audit, by label.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting.")
@click.option(
    "--sizes", default="1,4,16,all", show_default=True, help="Samples of an attacked client."
)
@click.option("--attacked", type=int, default=3, show_default=True, help="Clients to attack.")
@click.option("--clients", type=int, default=20, show_default=True, help="Clients that take part.")
@click.option("--updates", type=int, default=5, show_default=True, help="Conversions of each.")
@click.option(
    "--lpips", metavar="FILE", type=click.Path(path_type=Path), help="AlexNet and LPIPS weights."
)
@click.option("--seed", type=int, help="Instead of the file's first seed.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, …")
@click.option("--data", "data_root", metavar="DIR", help="The data root; else UNSTALE_DATA.")
@click.option("--out", metavar="PAGE", type=OutFile(), help="Write a page, with pictures.")
@click.option("--json", "as_json", is_flag=True, help="Print everything for programs on stdout.")
def audit(
    experiment: str,
    method: str | None,
    overrides: tuple[str, ...],
    sizes: str,
    attacked: int,
    clients: int,
    updates: int,
    lpips: Path | None,
    seed: int | None,
    device: str,
    data_root: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Attack some clients of EXPERIMENT as a curious server could, and say what comes out.

    EXPERIMENT is what `unstale run` takes. Updates of its slow clients are converted and attacked,
    and what is recovered is compared with their samples, beside baselines. The page that --out
    writes holds samples of the data.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from unstale.audit import AuditPlan, audit_experiment
    from unstale.audit.page import write_page
    from unstale.errors import ConfigError
    from unstale.experiment import load_experiment

    config = load_experiment(experiment, overrides=overrides)
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out should be an HTML page, which ends in .html. Found {out}.")
    plan = AuditPlan(
        sizes=_sizes(sizes),
        updates=updates,
        seed=config.seeds[0] if seed is None else seed,
    )
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} sizes"))
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(f"Auditing {config.name}", total=None)
        found = audit_experiment(
            config,
            method=method,
            plan=plan,
            attacked=attacked,
            clients=clients,
            lpips=lpips,
            device=device,
            data_root=data_root,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if out is not None:
        write_page(found, out)
    if as_json:
        shown = {**found.to_json(), **({} if out is None else {"page": str(out)})}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    Console().print(found.render())
    click.echo(f"Page: {out}" if out is not None else "A page with pictures: --out audit.html")


def _sizes(text: str) -> tuple[int | None, ...]:
    """Return the sizes of `1,16,all`; None for all."""
    from unstale.errors import ConfigError

    found: list[int | None] = []
    for word in text.split(","):
        try:
            found.append(None if word.strip() == "all" else int(word))
        except ValueError as error:
            raise ConfigError(
                "--sizes should be numbers of samples with commas between, or `all`, as 1,16,all. "
                f"Found {text!r}."
            ) from error
    return tuple(found)
