"""The server: one pure step, and around it what arrives, what is kept and what is saved."""

from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.server.server import Server
from unstale.server.step import Report, ServerState, step

__all__ = ["HistorySpec", "Limits", "Report", "Server", "ServerState", "step"]
