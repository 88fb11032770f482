"""The server: the pure step, and `Server` around it with arrivals, history and checkpoints."""

from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.server.report import Report
from unstale.server.server import Server
from unstale.server.settings import ServerSettings
from unstale.server.step import ServerState, step

__all__ = ["HistorySpec", "Limits", "Report", "Server", "ServerSettings", "ServerState", "step"]
