"""Watching run folders while runs go on, in this process or another: states, and a live page."""

from unstale.watch.folder import WatchedFolder
from unstale.watch.live_page import LivePage
from unstale.watch.server import PageServer
from unstale.watch.state import PartState, RunState, Status

__all__ = ["LivePage", "PageServer", "PartState", "RunState", "Status", "WatchedFolder"]
