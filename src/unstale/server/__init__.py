"""The server: one pure step, and around it what arrives, what is kept and what is saved."""

from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.server.report import Report
from unstale.server.server import Server
from unstale.server.settings import ServerSettings
from unstale.server.step import ServerState, step

__all__ = ["HistorySpec", "Limits", "Report", "Server", "ServerSettings", "ServerState", "step"]
