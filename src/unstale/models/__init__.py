"""Models of the paper and its experiments, by name.

None has dropout or a BatchNorm that learns statistics: the output depends on weights, fixed
statistics and input only, so that `local_update` can train a model with
``torch.func.functional_call`` and a whole cohort of clients with ``vmap``. Pretrained weights are
set by `load_weights`.
"""

from unstale.models import cnn1d, dense, lenet, resnet
from unstale.models.pretrained import LoadedWeights, freeze, load_weights
from unstale.models.registry import build, names, register
from unstale.models.weight_files import read_weights

__all__ = [
    "LoadedWeights",
    "build",
    "freeze",
    "load_weights",
    "names",
    "read_weights",
    "register",
]

for _name, _builder in {
    "digits": dense.digits,
    "lenet": lenet.lenet,
    "resnet18": resnet.resnet18,
    "mlp": dense.mlp,
    "cnn1d": cnn1d.cnn1d,
}.items():
    register(_name, _builder)
