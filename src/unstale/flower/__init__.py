"""The engine on Flower: real clients, real lateness. Needs the extra `unstale[flower]`."""

try:
    import flwr  # noqa: F401
except ImportError as error:  # the one thing that the core does not bring
    raise ImportError(
        "`unstale.flower` needs Flower, which is not installed. "
        "Install it: pip install 'unstale[flower]'."
    ) from error

from unstale.flower.close_policy import ClosePolicy
from unstale.flower.cohort import Cohort
from unstale.flower.decode import ReplyLimits
from unstale.flower.grid import LateGrid
from unstale.flower.messages import RecordNames
from unstale.flower.protecting import ProtectMod
from unstale.flower.run_log import RunLog
from unstale.flower.strategy import Unstale
from unstale.flower.work import Arrival, WorkTicket

__all__ = [
    "Arrival",
    "ClosePolicy",
    "Cohort",
    "LateGrid",
    "ProtectMod",
    "RecordNames",
    "ReplyLimits",
    "RunLog",
    "Unstale",
    "WorkTicket",
]
