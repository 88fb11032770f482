"""The strategy `Unstale`: Flower's rounds, with Unstale's server in the place of an average.

How one reply travels, file by file:

1. `cohort.py` draws the nodes of a round; those that are busy or away are `absent` and get no
   message. For an idle one `work_book.py` opens its work and has the server keep the version
   (`hand_out`); `messages.py` writes the message, with the version in it.
2. `grid.py` (`LateGrid.train_round`) sends it through `transport.py` and `push_pull.py`, and
   waits until `close_policy.py` says that the round may close.
3. The reply is pulled in whichever round it comes; `transport.py` matches it to its message
   and tells the book (`pull`). At once `on_reply` hands it to `session.py` and `intake.py`.
4. `intake.py` decodes it (`decode.py`, `arrays.py`), subtracts the weights of *its* version,
   has the server check the update, and writes it into `journal.py` and `events.py` by way of
   `ledger.py`. Now it is accepted. Or it is refused, and its work closed.
5. When its round is there (`give`), the server has it. When the round has closed,
   `Session.step` makes the next version of everything that was given, and of what the method
   makes in the place of absent nodes.
6. `rounds.py` evaluates and ends the round: its line (`run_log.py`), its checkpoint and its
   event (`ledger.py`) are written while nodes already work on the next one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import nn

from unstale.errors import ConfigError
from unstale.flower.arrays import Layout, weights_in
from unstale.flower.close_policy import ClosePolicy
from unstale.flower.cohort import Cohort, nodes_to_evaluate, nodes_to_train
from unstale.flower.decode import ReplyForm, ReplyLimits
from unstale.flower.grid import LateGrid
from unstale.flower.ledger import Ledger
from unstale.flower.messages import RecordNames, messages_to
from unstale.flower.metrics import MetricAggregation, MetricsFn
from unstale.flower.rounds import Asking, EvaluateFn, run_rounds
from unstale.flower.run_config import server_config
from unstale.flower.run_log import RunLog
from unstale.flower.session import Session, restored_or_none, restored_server
from unstale.flower.settings_words import settings_in_words
from unstale.flower.strategy_arguments import check_arguments
from unstale.flower.work import Arrival
from unstale.methods import Compensator, Method
from unstale.methods.base import trains_model
from unstale.server import Server, ServerSettings
from unstale.sinks import Sink, as_sinks
from unstale.training import check_model
from unstale.training.client import statistics_of

logger = logging.getLogger(__name__)


class Unstale(Strategy):
    """A strategy for Flower that uses late replies, however late they come.

    Clients are as for Flower's FedAvg: they get an ArrayRecord of the model's state, train,
    and send back one ArrayRecord and one MetricRecord with the number of examples. A round
    closes when the fast nodes have answered. A reply that comes in a later round is matched
    to the version it was based on and handed to the method; while a node works or is away,
    methods such as `convert` stand in for it. Every reply is checked; a bad
    one is refused, logged and counted. Version `n` of the model is what round `n` made.

    Args:
        model: The global model; lends its structure and its initial weights.
        server: The server's settings: method, local training, history, limits, and so on. A
            method alone (a name, a `Method` or a compensator) stands for
            `ServerSettings(method=...)`.
        cohort: How many nodes are asked: `fraction_train` and the other terms of FedAvg.
        close: When a round closes.
        reply_limits: How large and how late a reply may be.
        records: The names of records and metrics in messages, as in FedAvg.
        delay: Emulated lateness for simulations: a function from a node to the number of
            rounds by which its replies come late.
        folder: Where checkpoints, accepted updates, events and the round log go. None to
            write nothing down; then nothing can be resumed.
        sinks: Where rounds and summary also go while the run goes on: `"tensorboard"`,
            `"mlflow"`, `"wandb"`, or a sink of your own. Needs a folder.
        about: For the record and the report's page: `title`, `description`, `evaluate` with
            `target` and `affected`.
        train_metrics_aggr_fn: As FedAvg's: a function of the replies' records and of the name
            of the metric to weigh by that returns one MetricRecord. It gets the replies that a
            round uses, late ones in the round in which they are used, without their arrays.
            None for a mean weighted by examples.
        evaluate_metrics_aggr_fn: Likewise, of the replies to an evaluation.

    Raises:
        ConfigError: If an argument is of the wrong kind, or Flower cannot carry the model.
        ModelError: If the server cannot train the model.

    Example:
        ```python
        settings = us.ServerSettings(
            method="convert",
            local=us.LocalSpec(lr=0.01, epochs=5),
            inputs=us.InputSpec(shape=(1, 28, 28), classes=10),
        )
        strategy = Unstale(
            model,
            settings,
            cohort=Cohort(fraction_train=0.1, min_available_nodes=10),
            close=ClosePolicy(fraction=0.8, deadline=60),
            folder="runs/site-a",
        )
        result = strategy.start(grid=grid, num_rounds=50, resume=True)
        ```
    """

    def __init__(
        self,
        model: nn.Module,
        server: ServerSettings | Method | Compensator | str = "unweighted",
        *,
        cohort: Cohort = Cohort(),  # noqa: B008  (these four are frozen)
        close: ClosePolicy = ClosePolicy(),  # noqa: B008
        reply_limits: ReplyLimits = ReplyLimits(),  # noqa: B008
        records: RecordNames = RecordNames(),  # noqa: B008
        delay: Callable[[int], int] | None = None,
        folder: str | Path | None = None,
        sinks: Sequence[Sink | str] = (),
        about: Mapping[str, Any] | None = None,
        train_metrics_aggr_fn: MetricsFn | None = None,
        evaluate_metrics_aggr_fn: MetricsFn | None = None,
    ) -> None:
        if isinstance(server, str | Method | Compensator):
            server = ServerSettings(method=server)
        check_arguments(
            {
                "model": (model, nn.Module),
                "server": (server, ServerSettings),
                "cohort": (cohort, Cohort),
                "close": (close, ClosePolicy),
                "reply_limits": (reply_limits, ReplyLimits),
                "records": (records, RecordNames),
                "about": (about or {}, Mapping),
            },
            delay,
        )
        self.method = server.chosen
        _ = server.chosen_optimizer  # refused here if it does not go with the method
        check_model(model, stateful=not trains_model(self.method.compensator))
        self.settings = server
        self.cohort = cohort
        self.close_policy = close
        self.reply_limits = reply_limits
        self.folder = None if folder is None else Path(folder)
        self._model = model
        self._records = records
        averaged = server.local.buffers == "averaged"
        self._layout = Layout(model, statistics_of(model) if averaged else ())
        self._form = ReplyForm.under(
            reply_limits,
            self._layout,
            records.weighted_by_key,
            keeps_records=train_metrics_aggr_fn is not None,
        )
        self._metrics = MetricAggregation(
            self._form, train_metrics_aggr_fn, evaluate_metrics_aggr_fn
        )
        self._delay = delay
        self._sinks = as_sinks(sinks)
        if self._sinks and folder is None:
            raise ConfigError(
                "Unstale: `sinks` need a `folder`, where it is kept what they have got. Found none."
            )
        self._about = dict(about or {})
        self._server: Server | None = None
        self._session: Session | None = None
        self._grid: LateGrid | None = None

    @property
    def server(self) -> Server:
        """The server of the run that goes on or ended last.

        Raises:
            ConfigError: If no run was started yet.
        """
        if self._server is None:
            raise ConfigError(
                "The server should be looked at during a run or after one. It is made by "
                "`start`, from the folder's checkpoint or anew. The settings are in `settings`."
            )
        return self._server

    def summary(self) -> None:
        """Log the settings."""
        told = settings_in_words(self.settings, self.cohort, self.close_policy, self.folder)
        for line in told:
            logger.info("%s", line)

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
            grid: The Grid that Flower gave to the ServerApp, or a `LateGrid` around it, whose
                own `close`, `longest_lateness` and `delay` are used then.
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
            self._grid = self._open(grid, log, initial_arrays, num_rounds, resume)
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
        grid: Grid,
        log: RunLog | None,
        initial_arrays: ArrayRecord | None,
        num_rounds: int,
        resume: bool,
    ) -> LateGrid:
        """Make the server, new or from the folder's checkpoint, and what is around it."""
        ledger = Ledger(self.folder, self.settings.storage.seal())
        restored = restored_or_none(ledger, log, resume)
        if restored is not None:
            self._server = restored_server(restored.server, self._model, self.settings)
        else:
            weights = (
                None
                if initial_arrays is None
                else weights_in(initial_arrays, self._layout, self._model)
            )
            self._server = Server.from_settings(self._model, self.settings, weights)
        late = grid if isinstance(grid, LateGrid) else self._late(grid)
        self._session = Session(self._server, late.book, self._form, ledger, log, num_rounds)
        self._session.begin(restored)
        late.on_reply = self._on_reply
        late.before_pause = self._before_pause
        late.resume_at(self._server.version + 1, () if restored is None else restored.slow)
        return late

    def _late(self, grid: Grid) -> LateGrid:
        return LateGrid(
            grid,
            self.close_policy,
            longest_lateness=self.reply_limits.longest_lateness,
            delay=self._delay,
        )

    def _run_log(self, num_rounds: int) -> RunLog | None:
        if self.folder is None:
            return None
        own = {
            "cohort": self.cohort,
            "close": self.close_policy,
            "reply_limits": {**asdict(self.reply_limits), "max_bytes": self._form.max_bytes},
        }
        return RunLog(
            self.folder,
            method=self.method,
            seed=self.settings.seed,
            config={"rounds": num_rounds, **self._about, **server_config(self.settings), **own},
            device=next(self._model.parameters()).device,
            sinks=self._sinks,
        )

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
        drawn = nodes_to_train(self.cohort, _as_late(grid), self.server, server_round)
        for node in grid.get_node_ids():  # how late each is, the server sees by itself
            self.server.register(str(node))
        for node in drawn.asked:
            session.book.hand_out(node)
        session.begin_round(server_round, drawn.absent)
        return messages_to(
            drawn.asked,
            MessageType.TRAIN,
            names=self._records,
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
        session.step(server_round, arrivals)
        return self._arrays(), self._metrics.of_training(session.book.given())

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return a message to each node that is to evaluate."""
        if not self.cohort.evaluates:
            return []
        return messages_to(
            nodes_to_evaluate(self.cohort, _as_late(grid), self.server),
            MessageType.EVALUATE,
            names=self._records,
            arrays=arrays,
            config=config,
            round=server_round,
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return what nodes measured as one record."""
        return self._metrics.of_evaluation(replies)


def _as_late(grid: Grid | None) -> LateGrid:
    if not isinstance(grid, LateGrid):
        raise ConfigError(
            f"The grid should be a `LateGrid`. Found {type(grid).__name__}. `Unstale.start` "
            "makes one of any grid."
        )
    return grid
