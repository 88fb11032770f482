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


def held_from(*labels: str) -> list[float]:
    """Return the rounds from which methods hold the target in the paper's regime."""
    methods = _methods("quickstart_paper")
    return [methods[label]["held_from"] for label in labels]


def ends_in_the_papers_regime(*labels: str) -> list[float]:
    """Return the affected accuracy of methods in the end, each with its spread."""
    methods = _methods("quickstart_paper")
    chosen = (methods[label] for label in labels)
    return [
        value
        for one in chosen
        for value in (one["affected_accuracy"], one["spread"]["affected_accuracy"])
    ]


def _methods(name: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((RESULTS / name / "summary.json").read_text("utf-8"))
    methods: dict[str, Any] = summary["methods"]
    return methods


def span(name: str, label: str) -> float:
    """Return how far the best and the worst score of a method's tries are apart."""
    scores = [one["score"] for one in tuning(name)["methods"][label]["tries"]]
    return max(scores) - min(scores)


def tuning(name: str) -> dict[str, Any]:
    """Return the record of a tuning."""
    found: dict[str, Any] = json.loads((RESULTS / name / "tuning.json").read_text("utf-8"))
    return found
