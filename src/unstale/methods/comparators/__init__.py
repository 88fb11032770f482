"""Comparators: surrogate data from a client's *model* instead of from its update.

The paper's Appendix C compares conversion with two such sources. They are here so that the
comparison can be made; as methods of their own they are not recommended.
"""

from unstale.methods.comparators.dreams import DreamedInputs
from unstale.methods.comparators.generator import DataFreeGenerator
from unstale.methods.comparators.surrogate_data import SurrogateData

__all__ = ["DataFreeGenerator", "DreamedInputs", "SurrogateData"]
