"""Surrogates: what the server made up for some clients."""

from unstale.report.context import Context, Section
from unstale.report.conversions import SurrogateSamples
from unstale.report.markup import method_tag, text
from unstale.report.picture import kind_of, picture
from unstale.report.records import Client, Run, Scenario

# A file may hold more; a page has to be opened on a phone.
MAX_CLIENTS, MAX_SAMPLES = 6, 8

Shown = tuple[str, int, tuple[SurrogateSamples, ...]]


def shown(run: Run) -> list[Shown]:
    """Return method label, seed and surrogates, of the first seed of each method."""
    found = []
    for method in run.methods:
        for seed, surrogates in run.surrogates.get(method.label, {}).items():
            kept = tuple(one for one in surrogates if one.x)[:MAX_CLIENTS]
            if kept:
                found.append((method.label, seed, kept))
                break
    return found


def build(context: Context) -> Section | None:
    """Build the section; None where no method left any surrogate."""
    found = shown(context.run)
    if not found:
        return None
    parts = []
    for label, seed, surrogates in found:
        scenario = context.run.scenarios.get(seed)
        cards = "".join(_card(one, scenario) for one in surrogates)
        under = f" <small>seed {seed}</small>" if len(context.run.seeds) > 1 else ""
        parts.append(
            f'<h3 class="surrogates">{method_tag(context, label)}{under}</h3>'
            f'<div class="surrogates">{cards}</div>'
        )
    intro = (
        '<p class="note first">This is not client data: the server made it from updates alone, '
        "by moving inputs and labels until training on them changes the model as the client's "
        "update did. So it shows what updates give away: the classes a client holds, and, where "
        "whole updates are used, often how its examples look. The higher <code>sparsity</code> "
        "is, the less can be seen. Below each sample is the label that was found with it; all as "
        "they were at the end of the run.</p>"
    )
    return Section("surrogates", "Surrogates", intro + "".join(parts))


def _card(surrogate: SurrogateSamples, scenario: Scenario | None) -> str:
    names = scenario.classes if scenario else ()
    held = (
        next((c for c in scenario.clients if c.id == surrogate.client), None) if scenario else None
    )
    count = min(len(surrogate.x), MAX_SAMPLES)
    of = (
        f"{count} of {surrogate.samples} samples"
        if count < surrogate.samples
        else f"{count} samples"
    )
    facts = f"{of}; the client's own classes: {_holds(held, names)}" if held else of
    if kind_of(surrogate.shape):
        kind = "images" if kind_of(surrogate.shape) == "image" else "signals"
        tiles = "".join(_tile(surrogate, i, names) for i in range(count))
        body = f'<ol class="samples {kind}">{tiles}</ol>'
    else:
        shape = " × ".join(map(str, surrogate.shape))
        labels = "".join(f"<li>{_labels(surrogate.labels[i], names)}</li>" for i in range(count))
        body = (
            f'<p class="note">Inputs of {shape} values are neither an image nor a signal, and are '
            f'not drawn. The labels:</p><ol class="samples bare">{labels}</ol>'
        )
    return (
        f'<div class="card"><h4>{text(surrogate.client)}<small>{text(facts)}</small></h4>'
        f"{body}</div>"
    )


def _holds(client: Client, names: tuple[str, ...]) -> str:
    most = sorted(range(len(names)), key=lambda c: -client.histogram[c])
    told = [f"{names[c]} ({client.histogram[c]})" for c in most if client.histogram[c]]
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")


def _tile(surrogate: SurrogateSamples, sample: int, names: tuple[str, ...]) -> str:
    label = surrogate.labels[sample]
    top = _top(label, names)
    said = f"Sample {sample + 1}" + (f", {top[0][0]} {top[0][1]:.0%}" if top else "")
    return f"<li>{picture(surrogate, sample, said)}{_labels(label, names)}</li>"


def _labels(label: tuple[float, ...], names: tuple[str, ...]) -> str:
    said = "".join(
        f'<span class="label{"" if i == 0 else " second"}"><b>{text(name)}</b>'
        f"<span>{share:.0%}</span></span>"
        for i, (name, share) in enumerate(_top(label, names))
    )
    share = max(label, default=0.0)
    return f'<i class="bar" style="--c:var(--heat);--v:{min(max(share, 0), 1):.3f}"></i>{said}'


def _top(label: tuple[float, ...], names: tuple[str, ...]) -> list[tuple[str, float]]:
    """Return the two likeliest classes; the second only where it is worth a word."""
    order = sorted(range(len(label)), key=lambda c: -label[c])[:2]
    return [
        (names[c] if c < len(names) else str(c), label[c])
        for i, c in enumerate(order)
        if i == 0 or label[c] >= 0.05
    ]
