"""`Server`: open work, arrivals, history and checkpoints around the pure step."""

import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unstale.errors import ConfigError
from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.inversion import InputSpec, Surrogate
from unstale.methods import Compensator, Method
from unstale.methods.absence import stood_in_for
from unstale.methods.aggregate import Aggregator
from unstale.methods.base import trains_model
from unstale.methods.conversion.prefit import FitJob, fit_job_of, surrogates_of
from unstale.params import Params, clone, params_of
from unstale.privacy.storage import WITHOUT_MEMORY, Storage
from unstale.seeding import generator
from unstale.server.awaiting_fit import AwaitingFit
from unstale.server.checkpoint import Checkpoints, ReadParams
from unstale.server.checks import Limits, check_update, is_client_id, owned, refuse, shown
from unstale.server.history import History, HistorySpec
from unstale.server.open_work import Tickets
from unstale.server.registration import Registration
from unstale.server.report import Report
from unstale.server.saved_parts import check_fits, readers, settings_of, settings_tree, update_tree
from unstale.server.settings import ServerSettings, chosen_method
from unstale.server.step import ServerState, initial_state, step
from unstale.training.client import statistics_of
from unstale.training.local import LocalSpec
from unstale.training.model_checks import check_model
from unstale.updates import Key, Receipt, ServerView, TrainingTools, Update

logger = logging.getLogger(__name__)


class Server:
    """A federated learning server that accepts updates of any staleness.

    Clients get the global model by `check_out` and send updates by `submit`; `step`
    aggregates what has arrived into the next version. All methods are thread-safe.

    Args:
        model: The global model, with its initial weights.
        method: A method by name, a `Method` from `unstale.method(name, ...)`, or a compensator
            such as `Convert(...)`, whose updates are combined by FedAvg.
        local: The training recipe that clients run.
        compensator: How stale updates are compensated, instead of `method`.
        aggregator: How updates are combined, instead of `method`.
        history: How many earlier versions are kept, and where.
        limits: Limits on the updates that clients may send.
        inputs: Shape, bounds and number of classes of the model's inputs; needed by `convert`.
        executor: Computes conversions in parallel; None for this process. The caller closes it.
        background: Fits surrogates while rounds go on, so that no round waits for them; None
            to fit them in the step. The caller closes it. Neither is saved in checkpoints.
        seed: Seed of the method's random draws.
        storage: What `save` writes down of single clients, and whether it is encrypted.

    Example:
        >>> server = Server(nn.Linear(2, 1), method="unweighted")
        >>> version, params = server.check_out("c07")
        >>> delta = {name: torch.ones_like(p) for name, p in params.items()}
        >>> update = Update("c07", base_version=version, delta=delta, num_examples=40)
        >>> server.submit(update).accepted, server.submit(update).code
        (True, 'repeated')
        >>> report = server.step()
        >>> report.version, report.arrivals, dict(report.refused)
        (1, 1, {'repeated': 1})
    """

    def __init__(
        self,
        model: nn.Module,
        method: str | Method | Compensator | None = None,
        *,
        local: LocalSpec | None = None,
        compensator: Compensator | None = None,
        aggregator: Aggregator | None = None,
        history: HistorySpec | None = None,
        limits: Limits | None = None,
        inputs: InputSpec | None = None,
        executor: Executor | None = None,
        background: Background | None = None,
        seed: int = 0,
        storage: Storage | None = None,
    ) -> None:
        settings = ServerSettings(
            chosen_method(method, compensator, aggregator),
            local or LocalSpec(),
            history or HistorySpec(),
            limits or Limits(),
            inputs,
            executor,
            background,
            int(seed),
            storage or Storage(),
        )
        self._begin(model, settings, None)

    @classmethod
    def from_settings(
        cls, model: nn.Module, settings: ServerSettings, params: Params | None = None
    ) -> "Server":
        """Return a new server at version 0.

        Args:
            model: The global model, with its initial weights.
            settings: The settings of the server.
            params: Initial weights to use instead of the model's.
        """
        server = cls.__new__(cls)
        server._begin(model, settings, params)
        return server

    def _begin(self, model: nn.Module, settings: ServerSettings, given: Params | None) -> None:
        method = settings.chosen
        check_model(model, stateful=not trains_model(method.compensator))
        statistics = statistics_of(model) if settings.local.buffers == "averaged" else {}
        params = {**params_of(model), **statistics} if given is None else clone(given)
        state = initial_state(params, method)
        self._assemble(model, settings, state, frozenset(statistics))
        self._history.advance(0, params, None)

    def _assemble(
        self,
        model: nn.Module | None,
        settings: ServerSettings,
        state: ServerState,
        statistics: frozenset[str],
    ) -> None:
        self.model = model
        self.statistics = statistics
        """Names in `params` that are no weights but running statistics, which are averaged."""
        self.settings = settings
        self.method = settings.chosen
        self._state = state
        self._history = History(settings.history, self.method.compensator.lookback)
        self._tickets = Tickets()
        self._clients = Registration()
        self._pending: dict[Key, Update] = {}
        self._awaiting = AwaitingFit(settings.background, model)
        self._refused: Counter[str] = Counter()
        self._checkpoints: dict[Path, Checkpoints] = {}
        self._lock = threading.RLock()

    @property
    def local(self) -> LocalSpec:
        """The training recipe that clients run."""
        return self.settings.local

    @property
    def limits(self) -> Limits:
        """Limits on the updates that clients may send."""
        return self.settings.limits

    @property
    def inputs(self) -> InputSpec | None:
        """Shape, bounds and number of classes of the model's inputs."""
        return self.settings.inputs

    @property
    def executor(self) -> Executor | None:
        """Computes conversions in parallel; None for this process."""
        return self.settings.executor

    @property
    def background(self) -> Background | None:
        """Fits surrogates while rounds go on; with None they are fitted in the step."""
        return self.settings.background

    @property
    def seed(self) -> int:
        """Seed of the method's random draws."""
        return self.settings.seed

    @property
    def version(self) -> int:
        """The version of the current global model."""
        return self._state.version

    @property
    def params(self) -> dict[str, torch.Tensor]:
        """A copy of the current global weights."""
        return clone(self._state.params)

    @property
    def outstanding(self) -> list[int]:
        """The versions that clients have checked out and not yet answered, oldest first."""
        with self._lock:
            return sorted(self._tickets.outstanding())

    @property
    def awaiting_fit(self) -> list[Key]:
        """Client id and base version of the accepted updates that await their background fit."""
        with self._lock:
            return self._awaiting.keys

    def weights_of(self, version: int) -> Params | None:
        """Return the weights of a version, or None if they are not kept; do not modify them."""
        with self._lock:
            return self._history.get(version)

    def surrogates(self) -> dict[str, Surrogate]:
        """Return the clients' surrogates, from which their next fits start; do not modify them."""
        with self._lock:
            return surrogates_of(self.method.compensator, self._state.compensator)

    def stands_in_for(self) -> frozenset[str]:
        """Return the clients that the method would stand in for now, were they absent."""
        with self._lock:
            return stood_in_for(self.method.compensator, self._state.compensator, self.version)

    def register(self, client_id: str, latency: float | None = None) -> None:
        """Tell the server of a client, whether it has answered yet or not.

        Methods that make tiers of clients (`asyn_tiers`, `fedat`) need all of them. Registering
        again is harmless; a latency that is given replaces the one known before.

        Args:
            client_id: The client.
            latency: How many versions late its updates come, if that was measured. Otherwise
                the server goes by its last update and by how long it has been at work.
        """
        with self._lock:
            self._clients.register(client_id, latency)

    def check_out(self, client_id: str) -> tuple[int, dict[str, torch.Tensor]]:
        """Return the current version and weights; the version is kept until the client answers."""
        if not is_client_id(client_id):
            raise ConfigError(
                "`client_id` should be a non-empty string of valid Unicode. "
                f"Found {shown(client_id)}."
            )
        with self._lock:
            self._tickets.open(client_id, self.version)
            return self.version, self.params

    def release(self, client_id: str, version: int | None = None) -> None:
        """Stop waiting for a client's update from one version, or from all that it checked out."""
        with self._lock:
            self._tickets.release(client_id, version)

    def check(self, update: Update) -> Receipt:
        """Check an update without accepting it, for engines that log it before `submit`."""
        with self._lock:
            found = self._fault(update)
            return found or Receipt(True)

    def _fault(self, update: Update) -> Receipt | None:
        """Return why an update cannot be accepted, or None."""
        return check_update(update, self._state.params, self.version, self.limits, self.statistics)

    def submit(self, update: Update, *, checked: bool = False) -> Receipt:
        """Check an update and, if it is valid, accept it for the next step.

        With a `background`, a stale update that is to be converted takes part in the first
        step after its surrogate has been fitted. A refused update has no effect except that
        the report counts it.

        Args:
            update: The update of a client.
            checked: Whether `check` has accepted it; then only repetition is checked.
        """
        with self._lock:
            receipt = None
            if not checked:
                receipt = self._fault(update)
            if receipt is None and self._tickets.has_answered(
                update.client_id, update.base_version
            ):
                receipt = refuse(
                    "repeated",
                    "A client should send one update per base version. Found a second one of "
                    f"'{update.client_id}' for version {update.base_version}. Nothing needs to "
                    "be done: the first one counts.",
                )
            if receipt is not None:
                self._refused[receipt.code] += 1
                return receipt
            taken = owned(update, self._state.params)
            stale = taken.staleness(self.version) > 0
            if not (stale and self._awaiting.take(taken, self.version, self._fit_job)):
                self._pending[taken.key] = taken
            self._tickets.answer(*taken.key)
            return Receipt(True)

    def _fit_job(self, update: Update, since: int) -> FitJob | None:
        """Return the fit that can be computed in the background for an update, or None.

        Its random draws depend on `since`, the version at which the update arrived, so a
        server that is loaded from a checkpoint repeats the same fit.
        """
        view = ServerView(
            self.version,
            self._state.params,
            self._history.get,
            self.local,
            generator(self.seed, "server", since),
            frozenset(self._history.store.versions),
            TrainingTools(self.model, self.inputs),
        )
        return fit_job_of(self.method.compensator, update, self._state.compensator, view)

    def step(self, absent: Iterable[str] = ()) -> Report:
        """Compensate and aggregate the updates that have arrived into the next version.

        Updates that await their fit take part once it has ended.

        Args:
            absent: Clients that this round would have asked, had they not been at work or
                away. Methods such as `convert` stand in for those that they know, unless an
                update of the client itself has arrived.
        """
        with self._lock:
            ready = self._awaiting.ready()
            arrivals = [*self._pending.values(), *(update for update, _ in ready.values())]
            self._clients.observe(arrivals, self.version)
            result = step(
                self._state,
                arrivals,
                method=self.method,
                local=self.local,
                history=self._history.get,
                rng=generator(self.seed, "server", self.version),
                kept_versions=self._history.store.versions,
                tools=TrainingTools(
                    self.model,
                    self.inputs,
                    self.executor,
                    {key: made for key, (_, made) in ready.items() if made is not None},
                ),
                absent=absent,
                clients=self._clients.latencies(self.version, self._tickets.oldest()),
                statistics=self.statistics,
            )
            # First what can fail (a full disk), so that the step can be repeated after an error.
            needed = self._tickets.outstanding() | self._awaiting.versions(without=ready)
            self._history.advance(
                result.state.version,
                result.state.params,
                needed if self._tickets.ever_used else None,
            )
            refused = dict(self._refused)
            self._state = result.state
            self._pending.clear()
            self._refused.clear()
            for update in self._awaiting.drop(ready, self._fit_job):
                self._pending[update.key] = update
            awaiting = None if self.background is None else len(self._awaiting)
            return dataclasses.replace(
                result.report,
                refused=refused,
                history=self._history.store.usage(),
                awaiting_fit=awaiting,
            )

    # --- save and load ---------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write a checkpoint into `folder` atomically and return the path of its JSON file.

        Raises:
            ConfigError: If checkpoints are encrypted and the key is not there.
        """
        with self._lock:
            tree, versions = self.to_tree()
            path = Path(folder).resolve()
            if path not in self._checkpoints:
                self._checkpoints[path] = Checkpoints(path, self.settings.storage.seal())
            return self._checkpoints[path].write({"server": tree}, versions)

    def to_tree(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return the whole state as a tree, and readers of the kept versions, for a checkpoint.

        Without what the method remembers of clients, if `storage` says so.
        """
        keeps = self.settings.storage.keeps_memory
        tree = {
            "version": self.version,
            "params": dict(self._state.params),
            "compensator": self._state.compensator if keeps else self.method.compensator.init(),
            "aggregator": self._state.aggregator,
            "statistics": sorted(self.statistics),
            **settings_tree(self.settings),
            "tickets": self._tickets.to_json(),
            "clients": self._clients.to_json(),
            "refused": dict(self._refused),
            "pending": [update_tree(update) for update in self._pending.values()],
            "awaiting_fit": [
                {"update": update_tree(u), "since": since} for u, since in self._awaiting
            ],
        }
        return tree, readers(self._history)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: nn.Module | None = None,
        *,
        method: str | Method | None = None,
        local: LocalSpec | None = None,
        executor: Executor | None = None,
        background: Background | None = None,
        storage: Storage | None = None,
    ) -> "Server":
        """Restore a server from the newest intact checkpoint of a folder.

        A damaged checkpoint is skipped with a warning.

        Args:
            folder: The folder that `save` wrote to.
            model: The architecture, for methods that train the model on the server.
            method: Needed only if the method uses classes that are not registered.
            local: Needed only if the loss is a function instead of a name.
            executor: Computes conversions in parallel; None for this process.
            background: Fits surrogates while rounds go on. Updates that were awaiting their
                fit are fitted again; without a background they take part in the next step.
            storage: Where the key is, if the checkpoint is encrypted. As it was saved if not
                given.

        Raises:
            CheckpointError: If no checkpoint is intact.
            ConfigError: If it is encrypted and the key is missing or another one.
        """
        path = Path(folder).resolve()
        checkpoints = Checkpoints(path, None if storage is None else storage.seal())
        tree, versions = checkpoints.read()
        settings = settings_of(
            tree["server"],
            method=method,
            local=local,
            executor=executor,
            background=background,
            storage=storage,
        )
        server = cls.from_tree(tree["server"], versions, model, settings)
        server._checkpoints[path] = checkpoints
        return server

    @classmethod
    def from_tree(
        cls,
        tree: dict[str, Any],
        versions: dict[int, ReadParams],
        model: nn.Module | None,
        settings: ServerSettings,
    ) -> "Server":
        """Return the server from the results of `to_tree`, with the given settings."""
        names = ("version", "params", "compensator", "aggregator")
        state = ServerState(*(tree[name] for name in names))
        if model is not None:
            check_model(model, stateful=not trains_model(settings.chosen.compensator))
            check_fits(model, state.params)
        if tree.get("storage", {}).get("checkpoints") == WITHOUT_MEMORY:
            logger.warning(
                "The checkpoint of version %d has no memory of clients: %s begins anew with them.",
                state.version,
                settings.chosen.name,
            )
        server = cls.__new__(cls)
        server._assemble(model, settings, state, frozenset(tree.get("statistics", ())))
        device = next(iter(state.params.values())).device
        for version in sorted(versions):
            params = versions[version]()
            server._history.store.put(version, {n: params[n].to(device) for n in state.params})
        server._tickets = Tickets.from_json(tree["tickets"])
        if "clients" in tree:  # not in checkpoints from before there was a registration
            server._clients = Registration.from_json(tree["clients"])
        server._refused = Counter(tree["refused"])
        waiting = [(Update(**item["update"]), item["since"]) for item in tree["awaiting_fit"]]
        for update in [
            *(Update(**item) for item in tree["pending"]),
            *server._awaiting.resume(waiting, server._fit_job),
        ]:
            server._pending[update.key] = update
        return server
