"""Files of a finished run, with figures that a test chooses."""

import json

from unstale.run_folder import RunFolder


def write_run(path, rows, rounds=40):
    """Write the files of a finished run: rows are {label: [(affected, held_from) by seed]}."""
    methods = {
        label: {
            "per_seed": [
                {"seed": 10 + at, "accuracy": 0.5, "affected_accuracy": acc, "held_from": held}
                for at, (acc, held) in enumerate(seeds)
            ]
        }
        for label, seeds in rows.items()
    }
    seeds = [10 + at for at in range(len(next(iter(rows.values()))))]
    path.mkdir(parents=True)
    summary = {"rounds": rounds, "seeds": seeds, "methods": methods}
    (path / "summary.json").write_text(json.dumps(summary))
    config = {"rounds": rounds, "seeds": seeds, "methods": [{"label": label} for label in rows]}
    (path / "config.json").write_text(json.dumps(config))
    return RunFolder(path)


ROWS = {
    "unweighted": [(0.5, 40), (0.4, 60), (0.6, None)],
    "first_order": [(0.6, None), (0.5, None), (0.6, None)],
    "convert": [(0.7, 20), (0.6, 30), (0.8, 25)],
}
