"""How to get these numbers again: the command, the environment, the config."""

import json

from unstale.report.context import Context, Section
from unstale.report.markup import text


def build(context: Context) -> Section | None:
    """Build the section from the environment and the config."""
    run = context.run
    environment = dict(run.environment)
    command = environment.pop("command", None)
    body = ""
    if command:
        body += (
            '<p class="note">To reproduce:</p>'
            f'<pre class="command"><code>{text(command)}</code></pre>'
        )
    facts = "".join(
        f"<div><dt>{text(key)}</dt><dd>{text(_shown(value))}</dd></div>"
        for key, value in environment.items()
        if value is not None
    )
    if facts:
        body += f'<dl class="facts">{facts}</dl>'
    # Not sorted: the config's own order is the one its reader wrote.
    written = json.dumps(run.config, indent=2, ensure_ascii=False)
    body += (
        "<details><summary>The whole config</summary>"
        f"<pre><code>{text(written)}</code></pre></details>"
    )
    return Section("setup", "Setup", body)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
