"""The engine on Flower: real clients, real lateness. Needs the extra `unstale[flower]`."""

try:
    import flwr  # noqa: F401
except ImportError as error:  # the one thing that the core does not bring
    raise ImportError(
        "`unstale.flower` needs Flower, which is not installed. "
        "Install it: pip install 'unstale[flower]'."
    ) from error

from unstale.flower.closing import Closing
from unstale.flower.late_grid import LateGrid
from unstale.flower.run_log import RunLog
from unstale.flower.strategy import Unstale
from unstale.flower.work_tickets import Arrival, WorkTicket

__all__ = ["Arrival", "Closing", "LateGrid", "RunLog", "Unstale", "WorkTicket"]
