"""convert: estimates the update that a client would send today from a stale one."""

from collections.abc import Sequence

from torch import nn

from unstale.inversion.estimate import estimate_many
from unstale.inversion.fit import fit_many
from unstale.inversion.request import Conversion, Request, Sent, check_requests
from unstale.inversion.settings import Inversion
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.params import Params
from unstale.training.local import LocalSpec


def convert(
    model: nn.Module,
    *,
    base: Params,
    current: Params,
    delta: Params,
    local: LocalSpec,
    inputs: InputSpec,
    num_examples: int,
    past: Sequence[Sent] = (),
    settings: Inversion | None = None,
    seed: int = 0,
    warm: Surrogate | None = None,
) -> Conversion:
    """Estimate the update that a client would send if it had started from `current`.

    The inversion finds a surrogate `(x, y)` whose training from `base` changes the weights by
    `delta`. The estimate is the change by training it from `current`. No argument is changed,
    and a failed fit is a result with `ok` false, not an exception.

    Args:
        model: The structure that clients train; its own weights are not used.
        base: The weights that the client started from.
        current: The weights of today.
        delta: The stale update: what the client's training changed.
        local: The recipe that the client ran.
        inputs: What one input looks like.
        num_examples: How many examples the client trained on.
        past: Its earlier updates `(base, delta)`, the newest last; `settings.history`
            says how many are used.
        settings: How to fit; the default where not given.
        seed: Decides the noise of the start.
        warm: The surrogate of the client's last conversion, to be improved.

    Raises:
        ConfigError: If tensors, model and `inputs` do not belong together.
        ModelError: If the model cannot be trained faithfully.

    Example:
        >>> import torch
        >>> from unstale.training.local import local_update
        >>> model = nn.Linear(2, 2)
        >>> base, current = ({n: torch.zeros_like(p) + c for n, p in model.named_parameters()}
        ...                  for c in (0.0, 0.5))
        >>> local = LocalSpec(lr=0.1, epochs=3)
        >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        >>> stale = local_update(model, base, x, y, local)
        >>> found = convert(model, base=base, current=current, delta=stale, local=local,
        ...                 inputs=InputSpec(shape=(2,), classes=2), num_examples=2,
        ...                 settings=Inversion(sparsity=0))
        >>> found.ok, found.loss < 0.1
        (True, True)

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness.
    """
    request = Request(base, delta, num_examples, past, warm, seed)
    return convert_many(
        model, [request], current=current, local=local, inputs=inputs, settings=settings
    )[0]


def convert_many(
    model: nn.Module,
    requests: Sequence[Request],
    *,
    current: Params,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion | None = None,
) -> list[Conversion]:
    """Convert the stale updates of several clients at once, each as `convert` would.

    Requests with equally many samples and past updates are solved together, at most
    `settings.at_once` of them. Other requests affect a result by rounding only.
    """
    settings = settings or Inversion()
    check_requests(model, requests, current)
    fits = fit_many(model, requests, local=local, inputs=inputs, settings=settings)
    return estimate_many(model, requests, fits, current=current, local=local, settings=settings)
