"""Tables of this page, from the record of the tuning in `results`.

<!-- made by: tables.py tried quickstart -->
"""

import json
from pathlib import Path
from typing import Any

from unstale.run_folder.tuning_words import settings_in_words

RESULTS = Path(__file__).parent / "results"


def tried(name: str) -> str:
    """Return what every tuned method tried, with its scores, and what was chosen.

    Args:
        name: The kept run, `quickstart` or `quickstart_paper`.
    """
    lines = ["| method | settings tried, each with its score; the chosen one in bold |"]
    lines += ["| --- | --- |"]
    for label, one in tuning(name)["methods"].items():
        cells = []
        for at, found in enumerate(one["tries"]):
            score = "diverged" if found["score"] is None else f"{found['score']:.3f}"
            words = f"{settings_in_words(found['settings'])}: {score}"
            cells.append(f"**{words}**" if at == one["chosen"] else words)
        lines.append(f"| `{label}` | {'; '.join(cells)} |")
    return "\n".join(lines)


def figures(name: str, label: str, figure: str, *settings: str) -> list[float]:
    """Return a figure of some tries of one method, means over the tuning seeds.

    Args:
        name: The kept run.
        label: The method.
        figure: Such as `accuracy` or `affected_accuracy`, both over the last fifth.
        settings: Those of each try in words, as the table shows them.
    """
    tries = {
        settings_in_words(one["settings"]): one["figures"]
        for one in tuning(name)["methods"][label]["tries"]
    }
    return [tries[words][figure] for words in settings]


def held_from() -> list[float]:
    """Return the rounds from which `convert` and tuned `first_order` hold the target."""
    runs = {"quickstart_paper": "convert", "quickstart_paper_first_order": "first_order"}
    found = [json.loads((RESULTS / run / "summary.json").read_text("utf-8")) for run in runs]
    pairs = zip(found, runs.values(), strict=True)
    return [one["methods"][label]["held_from"] for one, label in pairs]


def ends_in_the_papers_regime() -> list[float]:
    """Return the affected accuracy in the end with its spread: first order, convert, no delay."""
    runs = ("quickstart_paper_first_order", "quickstart_paper", "quickstart_paper")
    found = []
    for run, label in zip(runs, ("first_order", "convert", "no_delay"), strict=True):
        summary = json.loads((RESULTS / run / "summary.json").read_text("utf-8"))
        method = summary["methods"][label]
        found += [method["affected_accuracy"], method["spread"]["affected_accuracy"]]
    return found


def span(name: str, label: str) -> float:
    """Return how far the best and the worst score of a method's tries are apart."""
    scores = [one["score"] for one in tuning(name)["methods"][label]["tries"]]
    return max(scores) - min(scores)


def tuning(name: str) -> dict[str, Any]:
    """Return the record of a tuning."""
    found: dict[str, Any] = json.loads((RESULTS / name / "tuning.json").read_text("utf-8"))
    return found
