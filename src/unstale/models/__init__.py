"""Models of the paper and its experiments, by name.

None has BatchNorm or dropout: the output depends on weights and input only, so that
`local_update` can train a model with ``torch.func.functional_call`` and a whole cohort
of clients with ``vmap``.
"""

from unstale.models import cnn1d, dense, lenet, resnet, text_cnn
from unstale.models.registry import build, names, register, takes_tokens

__all__ = ["build", "names", "register", "takes_tokens"]

for _name, _builder in {
    "digits": dense.digits,
    "lenet": lenet.lenet,
    "resnet18": resnet.resnet18,
    "mlp": dense.mlp,
    "cnn1d": cnn1d.cnn1d,
    "text_cnn": text_cnn.text_cnn,
}.items():
    register(_name, _builder)
