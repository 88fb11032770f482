"""Local training: what a client does to the weights it was given.

`local_update` trains one client, `vectorised` several at once; `cuda_graphs` records
either for a GPU.
"""

from unstale.training.local import local_update
from unstale.training.model_checks import check_model
from unstale.training.spec import LocalSpec

__all__ = ["LocalSpec", "check_model", "local_update"]
