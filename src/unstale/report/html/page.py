"""Builds the page from its templates: one file that needs no network.

The templates escape everything by themselves. Only our own style sheet and script go in
as they are; data for the script goes through `tojson`, which cannot end a script element.
"""

import base64
import functools
import hashlib
import json
from importlib.resources import files
from typing import Any

import jinja2

from unstale.report.context import Context
from unstale.report.figures.lines import COUNTERS
from unstale.report.figures.switching import MAX_LINES, verdicts
from unstale.report.html import calibration_table, count_tables, stand_in_tables, tuning_tables
from unstale.report.html.error_table import error_table
from unstale.report.html.specs import spec
from unstale.report.html.summary_table import explain_saved, explain_time, summary_table
from unstale.report.html.surrogates import HEIGHT, WIDTH, cards, png_uri
from unstale.report.html.tables import class_table
from unstale.report.nodes import count_late
from unstale.report.palette import css_variables
from unstale.report.records import Run
from unstale.report.summarise import find, late_by
from unstale.run_folder.best import NEAR
from unstale.run_folder.protection_words import spent_in_words

# In the order in which they build on each other.
MAX_RECIPES = 5
"""Clients with another recipe that the page names."""
SCRIPTS = ("chart_base.js", "chart_lines.js", "chart_cells.js", "page.js")


def build_page(context: Context) -> str:
    """Return the whole page as HTML."""
    run, figures = context.run, context.figures
    nodes = run.nodes
    drawn = {chart.key for chart in figures.counters}
    return (
        environment()
        .get_template("page.html")
        .render(
            **frame(context),
            title=run.title,
            run=run,
            figures=figures,
            styles=context.styles,
            plots=context.plots,
            several=len(run.seeds) > 1,
            finding=find(run, context.summary),
            facts=_facts(run),
            progress=None if run.finished else _progress(run),
            other_recipes=_other_recipes(run),
            provisional=context.summary.provisional,
            summary=summary_table(context),
            time_notes=[explain_time(context), explain_saved(context)],
            near=f"{NEAR:g}",
            spent=spent_in_words(run.privacy),
            tuning=tuning_tables.tuning_section(run),
            nodes=nodes,
            node_table=count_tables.node_table(nodes, "At the end" if run.finished else "Now"),
            more_nodes=nodes[count_tables.MAX_NODES :],
            classes=class_table(run, figures.classes) if figures.classes else None,
            affected_sets=len({scenario.affected for scenario in run.scenarios.values()}),
            totals=count_tables.totals_table(run),
            never=[title.lower() for key, title, _ in COUNTERS if key not in drawn],
            standing_in=stand_in_tables.stand_in_table(run),
            stood_in=stand_in_tables.stood_in_table(run),
            stood_in_seed=stand_in_tables.shown_seed(run),
            reasons=count_tables.reasons_table(run),
            fit=count_tables.fit_table(run),
            calibration=calibration_table.calibration_table(run),
            shares=calibration_table.shares_used(run),
            candidates=calibration_table.candidates_used(run),
            errors=error_table(run),
            verdicts=[(m.label, *verdicts(run, m)) for m in run.methods],
            max_lines=MAX_LINES,
            environment=_environment(run),
            config=json.dumps(run.config, indent=2, ensure_ascii=False),
        )
    )


def frame(context: Context) -> dict[str, Any]:
    """Return what every page needs: style sheet, script with its hash, looks of the methods."""
    script = "\n".join(_asset(name) for name in SCRIPTS)
    return {
        "css": _asset("page.css"),
        "colours": (css_variables(0), css_variables(1)),
        "script": script,
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        "looks": {
            m.label: {
                "css": context.styles[m.label].css,
                "dash": context.styles[m.label].dash,
                "oracle": m.is_oracle,
            }
            for m in context.run.methods
        },
    }


@functools.cache
def environment() -> jinja2.Environment:
    """Return the templates' environment: all output is escaped, an unknown name is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("unstale.report.html", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Compact, in the order given; NaN is no JSON.
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters.update(spec=spec, cards=cards, png_uri=png_uri)
    made.globals.update(signal_size=(WIDTH, HEIGHT))
    return made


def _asset(name: str) -> str:
    return (files("unstale.report.html") / name).read_text(encoding="utf-8")


def _facts(run: Run) -> list[tuple[str, str]]:
    """Return the facts under the title: name and value."""
    names = {run.class_name(position) for position in run.affected}
    facts = [
        ("Affected class" if len(names) == 1 else "Affected classes", ", ".join(sorted(names)))
    ]
    if scenario := run.scenario:
        slow = sum(client.slow for client in scenario.clients)
        facts.append(("Slow clients", f"{slow} of {len(scenario.clients)}"))
        facts.append(("Their latency", late_by(run) or "none"))
    elif nodes := run.nodes:
        late, by = count_late(nodes)
        facts.append(("Nodes", f"{len(nodes):,}"))
        facts.append(("Late nodes", f"{late:,}" if late else "none"))
        facts.append(("Late by", by))
    facts.append(("Rounds", str(run.last_round)))
    facts.append(("Seeds" if len(run.seeds) != 1 else "Seed", ", ".join(map(str, run.seeds))))
    data = run.config.get("data")
    if isinstance(data, dict) and isinstance(data.get("name"), str):
        facts.append(("Data", data["name"]))
    facts.append(("Clients' updates", run.protection))
    facts.append(("Server optimizer", run.optimizer))
    if run.scenario is not None:
        facts.append(("Test set", run.scenario.test_set))
    return [(name, value) for name, value in facts if value]


def _progress(run: Run) -> str:
    """Say how far an unfinished run got."""
    planned = len(run.methods) * len(run.seeds)
    of = f" of {run.planned_rounds}" if run.planned_rounds else ""
    if planned == 1 and run.rounds:
        return f"Round {max(map(run.reached, run.rounds))}{of}."
    going = []
    done = 0
    for label, by_seed in run.rounds.items():
        for seed, rounds in by_seed.items():
            reached = rounds[-1].number if rounds else 0
            if run.planned_rounds and reached >= run.planned_rounds:
                done += 1
            else:
                going.append(f"{label}, seed {seed}: round {reached}{of}")
    state = f"{done} of {planned} method and seed pairs are done."
    if going:
        more = f"; and {len(going) - 3} more" if len(going) > 3 else ""
        state += f" Under way: {'; '.join(going[:3])}{more}."
    return state


def _other_recipes(run: Run) -> list[tuple[str, str]]:
    """Return what was said of clients with another recipe, once for each method and client."""
    found = {
        (method.label, one.client): one.says
        for method in run.methods
        for rounds in run.rounds.get(method.label, {}).values()
        for record in rounds
        for one in record.other_recipes
    }
    told = [(label, said) for (label, _), said in found.items()]
    more = len(told) - MAX_RECIPES
    return told[:MAX_RECIPES] + ([(told[0][0], f"{more} more clients.")] if more > 0 else [])


def _environment(run: Run) -> list[tuple[str, str]]:
    """Return what the run's environment says, as text; the command is shown apart."""
    return [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in run.environment.items()
        if value is not None and key != "command"
    ]
