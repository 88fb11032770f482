"""The run folder's records of conversions, under the names that charts import."""

from unstale.run_folder import SurrogateSamples
from unstale.run_folder.schema import Converted, Measured

__all__ = ["Converted", "Measured", "SurrogateSamples"]
