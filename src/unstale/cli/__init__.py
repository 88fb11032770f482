"""The command line: `unstale run | check | methods | report | data`.

Exit codes: 0 done, 1 failed or stopped, 2 bad usage or config.
"""

from unstale.cli.main import main

__all__ = ["main"]
