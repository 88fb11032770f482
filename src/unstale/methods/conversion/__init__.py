"""The method of the paper: stale updates converted by training on a surrogate."""

from unstale.methods.conversion.convert import Convert
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.settings import Budget, Switching, Uniqueness
from unstale.methods.conversion.switching import SwitchBack, switch_back
from unstale.methods.conversion.uniqueness import OnlyUnique, only_unique

__all__ = [
    "Budget",
    "Convert",
    "ConvertAll",
    "OnlyUnique",
    "SwitchBack",
    "Switching",
    "Uniqueness",
    "only_unique",
    "switch_back",
]
