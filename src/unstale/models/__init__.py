"""Models of the paper and its experiments, by name.

None has BatchNorm or dropout: a model here is a function of its weights and its
input, so that `local_update` can train it over ``torch.func.functional_call`` and
a whole cohort of clients under ``vmap``.
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
