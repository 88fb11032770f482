"""Puts the page together: head, finding, sections, foot; one file, no network."""

import base64
import hashlib
from importlib.resources import files

from unstale.report.context import Context, Section
from unstale.report.markup import embed, method_tag, text
from unstale.report.nodes import count_late
from unstale.report.palette import css_variables
from unstale.report.sections import SECTIONS
from unstale.report.summarise import find, late_by

# In the order in which they build on each other.
SCRIPTS = ("chart_base.js", "chart_lines.js", "chart_heat.js", "chart_stack.js", "page.js")


def build_page(context: Context) -> str:
    """Return the whole page as HTML."""
    run = context.run
    script = "\n".join(_asset(name) for name in SCRIPTS)
    sections = [section for build in SECTIONS if (section := build(context)) is not None]
    styles = {
        method.label: {
            "css": context.styles[method.label].css,
            "dash": context.styles[method.label].dash,
            "oracle": method.is_oracle,
        }
        for method in run.methods
    }
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Unstale">
<title>{text(run.title)} · Unstale</title>
<style>:root{{{css_variables(0)}}}
@media (prefers-color-scheme: dark){{:root{{{css_variables(1)}}}}}
{_asset("page.css")}</style>
</head>
<body>
<main>
{_header(context)}
{"".join(_section(section) for section in sections)}
</main>
{_footer(context)}
<script type="application/json" id="methods">{embed(styles)}</script>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("unstale.report") / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Allow nothing but what this page holds: of scripts only ours, known by its hash.

    Foreign text is escaped; should some ever slip through, it still cannot run.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _section(section: Section) -> str:
    heading = f"<h2>{text(section.title)}</h2>"
    return f'<section id="{text(section.key)}">{heading}{section.body}</section>\n'


def _header(context: Context) -> str:
    run = context.run
    finding = find(run, context.summary)
    clauses = "; ".join(
        f"{method_tag(context, label)} {text(said)}" for label, said in finding.clauses
    )
    lede = f"{text(finding.lead)}{clauses}{'.' if clauses else ''}"
    description = run.config.get("description")
    about = f'<p class="about">{text(description)}</p>' if description else ""
    facts = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in _facts(context)
    )
    return (
        f'<header><p class="eyebrow">Unstale report</p><h1>{text(run.title)}</h1>'
        f'{_unfinished(context)}<p class="lede">{lede}</p>{about}'
        f'<dl class="tiles">{facts}</dl></header>'
    )


def _facts(context: Context) -> list[tuple[str, str]]:
    run = context.run
    facts = []
    names = {run.class_name(position) for position in run.affected}
    facts.append(
        ("Affected class" if len(names) == 1 else "Affected classes", ", ".join(sorted(names)))
    )
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
    return [(name, value) for name, value in facts if value]


def _unfinished(context: Context) -> str:
    """Say how far an unfinished run got; nothing for a finished one."""
    run = context.run
    if run.finished:
        return ""
    planned = len(run.methods) * len(run.seeds)
    going = []
    done = 0
    for label, by_seed in run.rounds.items():
        for seed, rounds in by_seed.items():
            reached = rounds[-1].number if rounds else 0
            if run.planned_rounds and reached >= run.planned_rounds:
                done += 1
            else:
                going.append(f"{label}, seed {seed}: round {reached}")
    of = f" of {run.planned_rounds}" if run.planned_rounds else ""
    state = f"{done} of {planned} method and seed pairs are done."
    if planned == 1 and run.rounds:
        state = f"Round {max(map(run.reached, run.rounds))}{of}."
    elif going:
        shown = "; ".join(f"{entry}{of}" for entry in going[:3])
        more = f"; and {len(going) - 3} more" if len(going) > 3 else ""
        state += f" Under way: {shown}{more}."
    return (
        f'<p class="unfinished" role="status"><b>Unfinished</b> {text(state)} '
        "All numbers are provisional"
        + ("; lines are means over the seeds that reached a round.</p>" if planned > 1 else ".</p>")
    )


def _footer(context: Context) -> str:
    environment = context.run.environment
    made = "Made by Unstale" + (f" {environment['unstale']}" if environment.get("unstale") else "")
    started = f" · run started {environment['started']}" if environment.get("started") else ""
    return f"<footer>{text(made + started)} · from the run folder alone</footer>"
