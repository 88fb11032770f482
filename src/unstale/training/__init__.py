"""Local training: the one definition of what a client does to the weights it was given."""

from unstale.training.local import LocalSpec, local_update
from unstale.training.model_checks import check_model

__all__ = ["LocalSpec", "check_model", "local_update"]
