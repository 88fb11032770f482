"""The strategy: Flower's rounds, with Unstale's server in the place of an average."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import nn

from unstale.errors import ConfigError
from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.flower.admission import admission_to, check_max_reply_bytes
from unstale.flower.closing import Closing
from unstale.flower.cohort import Cohort, nodes_to_evaluate, nodes_to_train
from unstale.flower.late_grid import LateGrid
from unstale.flower.layout import Layout
from unstale.flower.ledger import Ledger, Restored
from unstale.flower.messages import RecordNames, messages_to
from unstale.flower.metrics import mean_evaluation, mean_metrics
from unstale.flower.opening import fresh_server, rebuilt_server
from unstale.flower.rounds import Asking, EvaluateFn, run_rounds
from unstale.flower.run_log import RunLog
from unstale.flower.session import Session, restored_or_none
from unstale.flower.work_tickets import Arrival
from unstale.inversion import InputSpec
from unstale.methods import Compensator, Method
from unstale.methods.aggregate import Aggregator
from unstale.server import Server
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.training.local import LocalSpec

logger = logging.getLogger(__name__)


class Unstale(Strategy):
    """A strategy for Flower under which no work is lost because it comes late.

    Clients are as for Flower's FedAvg: they get an ArrayRecord of the model's state, train,
    and send back one ArrayRecord and one MetricRecord with the number of examples. Replies
    that come in later rounds are matched to the version they were based on and handed to
    the method. Every reply is checked; a bad one is refused, logged and counted.

    Version `n` of the model is what round `n` made.

    Args:
        model: The global model; lends its structure and its initial weights.
        method: A method by name or as `unstale.method(name, ...)` makes it.
        local: The recipe that clients run.
        compensator: Instead of `method`: what is done to stale updates.
        aggregator: Instead of `method`: how updates are combined.
        history: How much of the past is kept.
        limits: Bounds on the norm and the number of examples of each node's updates.
        max_reply_bytes: The most that one reply may hold; by default twice the model's size
            and 1 MiB. What is larger is refused without being decoded.
        inputs: What one input of the model looks like; needed by methods that convert.
        executor: Where conversions are done; the caller's to close.
        background: Where stale updates are prepared for conversion while rounds go on; in
            the round's step when not given. The caller's to close.
        seed: Seeds the choice of nodes and whatever the method draws.
        closing: When a round closes.
        longest_lateness: Seconds within which a reply must come; None for no limit.
        delay: Emulated lateness for simulations: rounds by which a node's replies come late.
        folder: Where checkpoints, accepted updates, events and the round log go. None to
            write nothing down; then nothing can be resumed.
        tensorboard: True for TensorBoard scalars in the folder, or where to write them.
        about: For the record and the report's page: `title`, `description`, `evaluate` with
            `target` and `affected`.
        fraction_train: As in FedAvg: the share of the connected nodes asked in a round. They
            are drawn among the idle ones.
        fraction_evaluate: Likewise for evaluation on nodes; 0, the default, for none.
        min_train_nodes: As in FedAvg: at least so many are asked, if they are idle.
        min_evaluate_nodes: Likewise for evaluation on nodes.
        min_available_nodes: As in FedAvg: a round begins once so many are connected.
        weighted_by_key: The metric that says how many examples a client used.
        arrayrecord_key: The name of the record of arrays that clients get.
        configrecord_key: The name of the record of settings that clients get.

    Example:
        ```python
        strategy = Unstale(model, method="convert", local=us.LocalSpec(lr=0.01, epochs=5),
                           inputs=us.InputSpec(shape=(1, 28, 28), classes=10),
                           closing=Closing(fraction=0.8, deadline=60), folder="runs/site-a")
        result = strategy.start(grid=grid, num_rounds=50, resume=True)
        ```
    """

    def __init__(
        self,
        model: nn.Module,
        method: str | Method | None = None,
        *,
        local: LocalSpec | None = None,
        compensator: Compensator | None = None,
        aggregator: Aggregator | None = None,
        history: HistorySpec | None = None,
        limits: Limits | None = None,
        max_reply_bytes: int | None = None,
        inputs: InputSpec | None = None,
        executor: Executor | None = None,
        background: Background | None = None,
        seed: int = 0,
        closing: Closing = Closing(),  # noqa: B008  (frozen)
        longest_lateness: float | None = None,
        delay: Callable[[int], int] | None = None,
        folder: str | Path | None = None,
        tensorboard: bool | str | Path = False,
        about: Mapping[str, Any] | None = None,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 0.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
    ) -> None:
        check_max_reply_bytes(max_reply_bytes)
        self._names = RecordNames(arrayrecord_key, configrecord_key)
        self.cohort = Cohort(
            fraction_train,
            fraction_evaluate,
            min_train_nodes,
            min_evaluate_nodes,
            min_available_nodes,
        )
        self.closing = closing
        self.folder = None if folder is None else Path(folder)
        self._longest_lateness = longest_lateness
        self._delay = delay
        self._tensorboard = tensorboard
        self._about = dict(about or {})
        self._model = model
        self._parts: dict[str, Any] = {
            "method": method,
            "local": local,
            "compensator": compensator,
            "aggregator": aggregator,
            "history": history,
            "limits": limits,
            "inputs": inputs,
            "executor": executor,
            "background": background,
            "seed": seed,
        }
        self.server = Server(model, **self._parts)
        self._layout = Layout(model)
        self._admission = admission_to(self._layout, max_reply_bytes, weighted_by_key)
        self._session: Session | None = None
        self._grid: LateGrid | None = None

    def summary(self) -> None:
        """Log the settings."""
        logger.info("Method: %s", self.server.method.name)
        logger.info("Rounds close by: %s", self.closing)
        logger.info("Nodes: %s", self.cohort)
        logger.info("Folder: %s", self.folder or "none, so nothing can be resumed")

    # ---- a run ----------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 3,
        timeout: float | None = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
        *,
        resume: bool = False,
    ) -> Result:
        """Run to a number of rounds.

        Args:
            grid: The Grid that Flower gave to the ServerApp, or a `LateGrid` around it.
            initial_arrays: The weights to begin with; the model's own when not given. A
                resumed run has its own.
            num_rounds: How many rounds there are in all, those before a resume included.
            timeout: Seconds after which a round closes in any case.
            train_config: Sent to clients that train; `server-round` is added.
            evaluate_config: Sent to clients that evaluate; likewise.
            evaluate_fn: Called with the version and the model's arrays before the first
                round and after each one.
            resume: Go on with the run in the folder; where there is none, begin one.

        Returns:
            The model, and the metrics of the rounds that this call has made.

        Raises:
            RunError: If the folder holds a run and `resume` is not given, or if another
                process works in it.
            ConfigError: If the arrays do not fit the model, or there is no folder to resume.
        """
        if resume and self.folder is None:
            raise ConfigError("To resume, a run should have a folder. Give one: folder=....")
        log = self._run_log(num_rounds)
        if log is not None:
            log.folder.lock()
        try:
            restored = self._open(log, initial_arrays, num_rounds, resume)
            self._grid = self._late(grid, () if restored is None else restored.slow)
            self.summary()
            asking = Asking(
                train_config or ConfigRecord(),
                evaluate_config or ConfigRecord(),
                timeout,
                on_nodes=self.cohort.evaluates,
            )
            return run_rounds(
                self, self._grid, self._running(), self._arrays(), num_rounds, asking, evaluate_fn
            )
        finally:
            self._session = self._grid = None
            if log is not None:
                log.close()

    def _open(
        self,
        log: RunLog | None,
        initial_arrays: ArrayRecord | None,
        num_rounds: int,
        resume: bool,
    ) -> Restored | None:
        ledger = Ledger(self.folder)
        restored = restored_or_none(ledger, log, resume)
        if restored is not None:
            self.server = rebuilt_server(self.server, self._model, restored.server)
        else:
            self.server = fresh_server(self._model, self._parts, initial_arrays)
        self._session = Session(self.server, self._layout, ledger, log, self._admission, num_rounds)
        self._session.begin(restored)
        return restored

    def _run_log(self, num_rounds: int) -> RunLog | None:
        if self.folder is None:
            return None
        server = self.server
        config = {
            "rounds": num_rounds,
            **self._about,
            "local": server.local,
            "history": server.history_spec,
            "limits": server.limits,
            "max_reply_bytes": self._admission.max_bytes,
            "inputs": server.inputs,
            "closing": self.closing,
            "longest_lateness": self._longest_lateness,
            "cohort": self.cohort,
        }
        device = next(self._model.parameters()).device
        return RunLog(
            self.folder,
            method=server.method,
            seed=server.seed,
            config=config,
            device=device,
            tensorboard=self._tensorboard,
        )

    def _late(self, grid: Grid, slow: Iterable[int]) -> LateGrid:
        if not isinstance(grid, LateGrid):
            grid = LateGrid(
                grid, self.closing, longest_lateness=self._longest_lateness, delay=self._delay
            )
        grid.on_reply = self._on_reply
        grid.before_pause = self._before_pause
        grid.resume_at(self.server.version + 1, slow)
        return grid

    def _running(self) -> Session:
        if self._session is None:
            raise ConfigError(
                "Rounds should be run by `Unstale.start` itself, which keeps the model and its "
                "versions. A strategy around it, such as Flower's server-side differential "
                "privacy, would change what nodes get behind its back. Use what works on the "
                "client's side, such as a mod."
            )
        return self._session

    def _arrays(self) -> ArrayRecord:
        return self._layout.encode(self.server.weights_of(self.server.version) or {})

    def _on_reply(self, arrival: Arrival) -> None:
        self._running().take(arrival)

    def _before_pause(self) -> None:
        if self._session is not None:
            self._session.write_down()

    # ---- the steps of a round, as Flower names them ---------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return a message to each node that is to train."""
        session = self._running()
        chosen = nodes_to_train(
            self.cohort, _as_late(grid), session.intake, self.server, server_round
        )
        for node in chosen:
            session.intake.hand_out(node)
        session.begin_round(server_round)
        return messages_to(
            chosen,
            MessageType.TRAIN,
            names=self._names,
            arrays=arrays,
            config=config,
            round=server_round,
            version=self.server.version,
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Hand replies to the server and make the next version."""
        session, grid = self._running(), _as_late(self._grid)
        arrivals = [a for a in map(grid.arrival_of, replies) if a is not None]
        session.step(server_round, arrivals, grid.working())
        measured = [(e.update.num_examples, e.metrics) for e in session.intake.taken]
        return self._arrays(), mean_metrics(measured)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return a message to each node that is to evaluate."""
        if not self.cohort.evaluates:
            return []
        return messages_to(
            nodes_to_evaluate(self.cohort, _as_late(grid), self.server),
            MessageType.EVALUATE,
            names=self._names,
            arrays=arrays,
            config=config,
            round=server_round,
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the mean of what nodes measured."""
        return mean_evaluation(replies, self._admission)


def _as_late(grid: Grid | None) -> LateGrid:
    if not isinstance(grid, LateGrid):
        raise ConfigError(
            f"The grid should be a `LateGrid`. Found {type(grid).__name__}. `Unstale.start` "
            "makes one of any grid."
        )
    return grid
