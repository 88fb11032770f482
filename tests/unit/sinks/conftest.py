import json

import pytest
from told_rounds import CONFIG, tell_rounds

from unstale.run_folder import RunFolder


@pytest.fixture(autouse=True)
def _own_settings_only(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    """A run folder with its config and no line yet."""
    made = RunFolder(tmp_path / "run-001")
    made.path.mkdir()
    made.config_path.write_text(json.dumps(CONFIG))
    return made


@pytest.fixture
def tell(folder):
    """Run some rounds of a method as an engine does, each line first in the folder."""
    return lambda *arguments, **options: tell_rounds(folder, *arguments, **options)
