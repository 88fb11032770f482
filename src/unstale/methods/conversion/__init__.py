"""The method of the paper: stale updates converted by training on a surrogate."""

from unstale.methods.conversion.convert import Convert
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.switching import SwitchBack, switch_back
from unstale.methods.conversion.uniqueness import OnlyUnique, only_unique

__all__ = ["Convert", "ConvertAll", "OnlyUnique", "SwitchBack", "only_unique", "switch_back"]
