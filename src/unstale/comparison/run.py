"""`simulate`: methods compared on a model and data of one's own, in one call."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.comparison.progress import SimulationProgress
from unstale.comparison.result import Comparison
from unstale.errors import ConfigError
from unstale.experiment import RunFolder, next_folder, run_experiment
from unstale.experiment.from_python import config_from_python

if TYPE_CHECKING:
    from unstale.experiment import Progress
    from unstale.experiment.config import EvaluateSpec
    from unstale.methods import ServerOptimizer
    from unstale.privacy import Protection, Storage
    from unstale.server import HistorySpec, Limits
    from unstale.sim.attackers import Attack
    from unstale.sim.availability import Availability
    from unstale.sim.cohort import Cohort
    from unstale.sim.drift import Drift
    from unstale.sinks import Sink
    from unstale.training import LocalSpec

Table = Mapping[str, Any]


def simulate(
    model: Any,
    data: Any,
    *,
    clients: Any = None,
    slow: Any = None,
    methods: Sequence[Any] | Mapping[str, Any] = ("unweighted", "convert"),
    rounds: int,
    seeds: Iterable[int] = (0,),
    local: "LocalSpec | Table | None" = None,
    out: str | Path | None = None,
    name: str = "simulation",
    title: str = "",
    cohort: "Cohort | Table | None" = None,
    availability: "Availability | Table | None" = None,
    drift: "Drift | Table | None" = None,
    attackers: "Attack | Table | None" = None,
    overlap: bool = False,
    evaluate: "EvaluateSpec | Table | None" = None,
    history: "HistorySpec | Table | None" = None,
    limits: "Limits | Table | None" = None,
    protection: "Protection | Table | None" = None,
    storage: "Storage | Table | None" = None,
    optimizer: "str | ServerOptimizer | Table | None" = None,
    oracle: bool = False,
    threads: int | None = None,
    device: str = "cpu",
    data_root: str | None = None,
    progress: "bool | Progress" = True,
    sinks: "Sequence[Sink | str]" = (),
) -> Comparison:
    """Simulate federated learning with slow clients, and compare methods.

    It runs what `unstale run` runs for an experiment file with the same settings, with the same
    numbers, and writes the same run folder. Every argument that is a table of the file can be
    given as a dict or as the object that it describes.

    Args:
        model: A class or function that makes an `nn.Module`, called for every seed with torch
            seeded (and with `input_shape` and `num_classes`, if it has such parameters); a module,
            whose weights then are the initial ones with every seed; or a registered name.
        data: `(x_train, y_train, x_test, y_test)` as tensors or arrays; a pair of PyTorch data
            sets; `(clients, test)` with what each client holds; a `FederatedDataset` of
            flwr-datasets; a `DatasetDict` of Hugging Face; a `Dataset`, as `unstale.data.from_…`
            make them; or a registered name.
        clients: A number of clients (their classes by a Dirichlet draw, equally many samples
            each), a partition by name or object, lists of indices of training samples, or a CSV
            file of `sample,client`. May be left out if the data names its users.
        slow: Who is late: `{"classes": [5], "clients": 3, "rounds": 40}` for the clients that
            hold most of a class, `{0: 40, 7: 100}` for clients by number, or any latency. Nobody,
            if left out.
        methods: Names, tables as `[[methods]]`, methods or compensators; in a list, or by label.
        rounds: Number of rounds.
        seeds: Seeds, such as `range(3)`.
        local: The training recipe of clients.
        out: The run folder; `runs/NAME-001` or the next free number if not given. An unfinished
            run of the same settings in it is resumed, a finished one is read.
        name: The name of the experiment.
        title: Its title on the report page.
        cohort: Which clients a round draws; all if not given.
        availability: When clients can be reached; always if not given.
        drift: How clients' data changes; not at all if not given.
        attackers: Which clients send malicious updates; none if not given.
        overlap: Whether a slow client can be asked again while it works.
        evaluate: When and on what the model is evaluated.
        history: How many versions the server keeps.
        limits: What updates the server refuses.
        protection: What clients do to their updates before they send them.
        storage: How checkpoints are kept.
        optimizer: How the server moves the weights by what was aggregated, with every method:
            `"fedadam"`, `{"name": "fedavgm", "momentum": 0.5}` or `FedAdam(lr=0.05)`.
        oracle: Whether to measure how far used updates are from those without delay.
        threads: CPU threads; 1 if not given, whatever torch is set to. The last bits of results
            depend on it, and operations of small models are slower with more.
        device: The torch device to train on.
        data_root: The folder of data sets and weights.
        progress: Whether to show progress and the time left on stderr; or an object that is
            notified of every round.
        sinks: Where rounds and summary also go while the run goes on: `"tensorboard"`,
            `"mlflow"`, `"wandb"`, or a sink of your own.

    Returns:
        The comparison, with its run folder.

    Raises:
        UnstaleError: If an argument, the data or the folder is wrong.

    Example:
        >>> import tempfile, torch
        >>> x, y = torch.rand(90, 4), torch.arange(90) % 3
        >>> found = simulate(
        ...     lambda: torch.nn.Linear(4, 3), (x[:60], y[:60], x[60:], y[60:]),
        ...     clients=6, slow={0: 2}, methods=["unweighted"], rounds=3,
        ...     out=tempfile.mkdtemp(), progress=False,
        ... )
        >>> list(found.methods)
        ['unweighted']
    """
    config = config_from_python(
        model,
        data,
        clients=clients,
        slow=slow,
        methods=methods,
        rounds=rounds,
        seeds=seeds,
        local=local,
        name=name,
        data_root=data_root,
        title=title,
        cohort=cohort,
        availability=availability,
        drift=drift,
        attackers=attackers,
        overlap=overlap,
        evaluate=evaluate,
        history=history,
        limits=limits,
        protection=protection,
        storage=storage,
        optimizer=optimizer,
        oracle=oracle,
        threads=threads,
    )
    if out is not None and not str(out):
        raise ConfigError(
            "`out` should be a folder. Found an empty text. Name one, or leave it out."
        )
    folder = next_folder(Path("runs"), config.name) if out is None else RunFolder(Path(out))
    with _shown(progress) as listener:
        try:
            run_experiment(
                config,
                folder,
                device=device,
                data_root=data_root,
                progress=listener,
                command="us.simulate",
                sinks=sinks,
            )
        except KeyboardInterrupt:
            if progress is not False:
                sys.stderr.write(f"\nStopped. Go on with out={str(folder.path)!r}.\n")
            raise
    return Comparison(folder.path)


def _shown(progress: "bool | Progress") -> Any:
    """Return a context manager that gives whoever is notified of every round."""
    if progress is True:
        return SimulationProgress()
    if progress is False:
        return nullcontext(None)
    if not (hasattr(progress, "begin") and hasattr(progress, "advance")):
        raise ConfigError(
            "`progress` should be True, False, or an object with `begin` and `advance`. "
            f"Found {progress!r}."
        )
    return nullcontext(progress)
