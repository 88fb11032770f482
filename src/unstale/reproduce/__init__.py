"""The tables and figures of the paper: which there are, how each is made, and what came out.

Importing it needs no torch; running an item does.
"""

from unstale.reproduce.catalogue import Catalogue, find_experiments, read_catalogue
from unstale.reproduce.cpu_size import at_cpu_size, has_cpu_size
from unstale.reproduce.items import Item, PaperTable, PlannedRun, Script
from unstale.reproduce.keep import keep_item
from unstale.reproduce.paper import Entry
from unstale.reproduce.state import STATES, item_state, kept_places, state_of
from unstale.reproduce.table import Table, tables_of

__all__ = [
    "STATES",
    "Catalogue",
    "Entry",
    "Item",
    "PaperTable",
    "PlannedRun",
    "Script",
    "Table",
    "at_cpu_size",
    "find_experiments",
    "has_cpu_size",
    "item_state",
    "keep_item",
    "kept_places",
    "read_catalogue",
    "state_of",
    "tables_of",
]
