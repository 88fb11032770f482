"""The exceptions of Unstale, all derived from `UnstaleError`.

```
UnstaleError
 ├── ConfigError        an experiment file, option or setting is wrong       (CLI exit code 2)
 │    └── UnknownNameError   a name that is not registered; suggests the nearest one
 ├── ModelError         `local_update` cannot train a model; lists every reason
 ├── DataError          a data set is missing, damaged or not as described
 ├── CheckpointError    no checkpoint of a folder can be restored
 ├── RunError           a run folder cannot be written, read or resumed
 └── WorkerError        a worker of an executor died         (in `unstale.executors`)
```

A message says what should hold, what was found, and what to do, in whole sentences
that can be shown to a user without a traceback.
"""

import difflib
from collections.abc import Iterable


class UnstaleError(Exception):
    """The base class of all exceptions of Unstale."""


class ConfigError(UnstaleError):
    """A setting, option or experiment file is wrong."""


class UnknownNameError(ConfigError):
    """A name is not registered; the message lists the known ones and suggests the nearest."""

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
    """`local_update` cannot train a model as `torch.optim` would."""


class DataError(UnstaleError):
    """A data set is missing, damaged or not as described."""


class CheckpointError(UnstaleError):
    """No checkpoint of a folder can be restored."""


class RunError(UnstaleError):
    """A run folder cannot be written, read or resumed."""
