"""Models of the paper and its experiments, by name.

None has BatchNorm or dropout: the output depends on weights and input only, so that
`local_update` can train a model with ``torch.func.functional_call`` and a whole cohort
of clients with ``vmap``.
"""

from unstale.models import cnn1d, dense, lenet, resnet
from unstale.models.registry import build, names, register

__all__ = ["build", "names", "register"]

for _name, _builder in {
    "digits": dense.digits,
    "lenet": lenet.lenet,
    "resnet18": resnet.resnet18,
    "mlp": dense.mlp,
    "cnn1d": cnn1d.cnn1d,
}.items():
    register(_name, _builder)
