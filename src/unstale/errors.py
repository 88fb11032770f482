"""Every exception that Unstale raises on purpose, as one tree.

```
UnstaleError
 ├── ConfigError        an experiment file, option or setting is wrong       (CLI exit code 2)
 │    └── UnknownNameError   a name that is in no registry; names the nearest
 ├── ModelError         a model that cannot be trained faithfully            (every fault listed)
 ├── DataError          a data set is missing, damaged or not as described
 ├── CheckpointError    nothing under a folder can be restored
 ├── RunError           a run folder cannot be written, read or resumed
 └── WorkerError        a worker of an executor was lost     (in `unstale.executors`)
```

Messages say what should hold, what was found, and what to do. They are whole
sentences that can be shown to a user without a traceback.
"""

import difflib
from collections.abc import Iterable


class UnstaleError(Exception):
    """The base of all errors below: catch this one to catch them all."""


class ConfigError(UnstaleError):
    """A setting, option or experiment file is wrong."""


class UnknownNameError(ConfigError):
    """A name was looked up and is not registered."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        super().__init__(
            f"{what} should be one of: {', '.join(known) or '(none)'}. Found '{name}'.{hint}"
        )
        self.name = name
        self.nearest = near[0] if near else None


class ModelError(UnstaleError):
    """A model cannot be trained faithfully by `local_update`."""


class DataError(UnstaleError):
    """A data set is missing, damaged or not as described."""


class CheckpointError(UnstaleError):
    """No checkpoint of a folder can be restored."""


class RunError(UnstaleError):
    """A run folder cannot be written, read or resumed."""
