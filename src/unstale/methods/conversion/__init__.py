"""The method `convert`: stale updates are converted by training on a surrogate data set."""

from unstale.methods.conversion.convert import Convert
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.in_groups import InGroups, in_groups
from unstale.methods.conversion.settings import (
    Budget,
    Calibration,
    RecipeCheck,
    StandIn,
    Switching,
    Uniqueness,
)
from unstale.methods.conversion.switching import SwitchBack, switch_back
from unstale.methods.conversion.uniqueness import OnlyUnique, only_unique

__all__ = [
    "Budget",
    "Calibration",
    "Convert",
    "ConvertAll",
    "InGroups",
    "OnlyUnique",
    "RecipeCheck",
    "StandIn",
    "SwitchBack",
    "Switching",
    "Uniqueness",
    "in_groups",
    "only_unique",
    "switch_back",
]
