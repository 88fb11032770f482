"""The server around the step: who works on what, what has arrived, and what is kept."""

import dataclasses
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unstale.errors import ConfigError
from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.inversion import InputSpec, Surrogate
from unstale.methods import Compensator, Method
from unstale.methods.aggregate import Aggregator
from unstale.methods.conversion.prefit import FitJob, fit_job_of, surrogates_of
from unstale.methods.description import describe_method
from unstale.params import Params, clone, params_of
from unstale.seeding import generator
from unstale.server.awaiting_fit import AwaitingFit
from unstale.server.checkpoint import Checkpoints, ReadParams
from unstale.server.checks import Limits, check_update, is_client_id, refuse, shown
from unstale.server.history import History, HistorySpec
from unstale.server.open_work import Tickets
from unstale.server.report import Report
from unstale.server.saved_parts import check_fits, readers, recipe_tree, settings_of, update_tree
from unstale.server.settings import ServerSettings
from unstale.server.step import ServerState, initial_state, step
from unstale.training.local import LocalSpec
from unstale.training.model_checks import check_model
from unstale.updates import Key, Receipt, ServerView, TrainingTools, Update


class Server:
    """A federated server for updates of any staleness.

    All methods may be called from several threads.

    Args:
        model: The global model; lends its structure and its initial weights.
        method: A method by name or as `unstale.method(name, ...)` makes it.
        local: The recipe that clients run.
        compensator: Instead of `method`: what is done to stale updates.
        aggregator: Instead of `method`: how updates are combined.
        history: How much of the past is kept.
        limits: Bounds on what clients may send.
        inputs: What one input of the model looks like; needed by methods that convert.
        executor: Where conversions are done; here when not given. It is not part of a
            checkpoint, and is the caller's to close.
        background: Where the surrogates of stale updates are found while rounds go on, so
            that no round waits for them; found in the step when not given. It is not part
            of a checkpoint, and is the caller's to close.
        seed: Seeds whatever the method draws.

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
        method: str | Method | None = None,
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
    ) -> None:
        settings = ServerSettings(
            _chosen(method, compensator, aggregator),
            local or LocalSpec(),
            history or HistorySpec(),
            limits or Limits(),
            inputs,
            executor,
            background,
            int(seed),
        )
        self._begin(model, settings, params_of(model))

    @classmethod
    def from_settings(
        cls, model: nn.Module, settings: ServerSettings, params: Params | None = None
    ) -> "Server":
        """Return a new server of version 0.

        Args:
            model: The global model; lends its structure and its initial weights.
            settings: How the server works.
            params: Initial weights instead of the model's own.
        """
        server = cls.__new__(cls)
        server._begin(model, settings, params_of(model) if params is None else clone(params))
        return server

    def _begin(self, model: nn.Module, settings: ServerSettings, params: Params) -> None:
        check_model(model)
        self._assemble(model, settings, initial_state(params, settings.chosen))
        self._history.advance(0, params, None)

    def _assemble(
        self, model: nn.Module | None, settings: ServerSettings, state: ServerState
    ) -> None:
        self.model = model
        self.settings = settings
        self.method = settings.chosen
        self._state = state
        self._history = History(settings.history, self.method.compensator.lookback)
        self._tickets = Tickets()
        self._pending: dict[Key, Update] = {}
        self._awaiting = AwaitingFit(settings.background, model)
        self._refused: Counter[str] = Counter()
        self._checkpoints: dict[Path, Checkpoints] = {}
        self._lock = threading.RLock()

    @property
    def local(self) -> LocalSpec:
        """The recipe that clients run."""
        return self.settings.local

    @property
    def limits(self) -> Limits:
        """Bounds on what clients may send."""
        return self.settings.limits

    @property
    def inputs(self) -> InputSpec | None:
        """What one input of the model looks like."""
        return self.settings.inputs

    @property
    def executor(self) -> Executor | None:
        """Where conversions are computed; None for this process."""
        return self.settings.executor

    @property
    def background(self) -> Background | None:
        """Where surrogates are fitted while rounds go on; None for nowhere."""
        return self.settings.background

    @property
    def seed(self) -> int:
        """Seeds whatever the method draws."""
        return self.settings.seed

    @property
    def version(self) -> int:
        """The number of the current global model."""
        return self._state.version

    @property
    def params(self) -> dict[str, torch.Tensor]:
        """A copy of the current global weights."""
        return clone(self._state.params)

    @property
    def history_spec(self) -> HistorySpec:
        """How much of the past is kept."""
        return self._history.spec

    @property
    def outstanding(self) -> list[int]:
        """The versions on which somebody works, oldest first."""
        with self._lock:
            return sorted(self._tickets.outstanding())

    @property
    def awaiting_fit(self) -> list[Key]:
        """The accepted updates that wait for their background fit: client and base version."""
        with self._lock:
            return self._awaiting.keys

    def weights_of(self, version: int) -> Params | None:
        """Return the weights of a version, or None if they are not kept. Do not change them."""
        with self._lock:
            return self._history.get(version)

    def surrogates(self) -> dict[str, Surrogate]:
        """Return the surrogates that the method keeps, by client; none where it makes none.

        Do not change them: the next conversion begins with them.
        """
        with self._lock:
            return surrogates_of(self.method.compensator, self._state.compensator)

    def check_out(self, client_id: str) -> tuple[int, dict[str, torch.Tensor]]:
        """Hand out the current model; its version is kept until the client answers."""
        if not is_client_id(client_id):
            raise ConfigError(
                "`client_id` should be a non-empty string of valid Unicode. "
                f"Found {shown(client_id)}."
            )
        with self._lock:
            self._tickets.open(client_id, self.version)
            return self.version, self.params

    def release(self, client_id: str, version: int | None = None) -> None:
        """Stop waiting for a client: for one version, or for all that it checked out."""
        with self._lock:
            self._tickets.release(client_id, version)

    def check(self, update: Update) -> Receipt:
        """Check an update without taking it, for engines that write it down before `submit`."""
        with self._lock:
            found = check_update(update, self._state.params, self.version, self.limits)
            return found or Receipt(True)

    def submit(self, update: Update, *, checked: bool = False) -> Receipt:
        """Check an update and, if nothing speaks against it, take it for the next step.

        With a `background`, a stale update that is to be converted waits until its
        surrogate is fitted, and takes part in the step after. A refused update changes
        nothing but the report's count of refusals.

        Args:
            update: What a client sent.
            checked: Whether `check` of this server has accepted this very update. Then only
                what may have changed since is checked: whether it is a repetition.
        """
        with self._lock:
            receipt = None
            if not checked:
                receipt = check_update(update, self._state.params, self.version, self.limits)
            if receipt is None and self._tickets.has_answered(
                update.client_id, update.base_version
            ):
                receipt = refuse(
                    "repeated",
                    "One update per client and base version should come. Found a second one "
                    f"of '{update.client_id}' for version {update.base_version}. A resend is "
                    "harmless: nothing needs to be done.",
                )
            if receipt is not None:
                self._refused[receipt.code] += 1
                return receipt
            key = (update.client_id, int(update.base_version))
            # A copy on our device: the sender may go on using its tensors.
            own = {
                name: update.delta[name].detach().to(p.device, copy=True)
                for name, p in self._state.params.items()
            }
            # Plain numbers: NumPy's do not go into a checkpoint.
            taken = dataclasses.replace(
                update,
                delta=own,
                base_version=key[1],
                num_examples=int(update.num_examples),
                weight=float(update.weight),
            )
            stale = taken.staleness(self.version) > 0
            if not (stale and self._awaiting.take(taken, self.version, self._fit_job)):
                self._pending[key] = taken
            self._tickets.answer(*key)
            return Receipt(True)

    def _fit_job(self, update: Update, since: int) -> FitJob | None:
        """Return the fit that can be computed ahead for an update that came at a version.

        Its draws depend on that version, as they would in the step that follows: then a
        server that was loaded fits it again in the same way.
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

    def step(self) -> Report:
        """Compensate and aggregate what has arrived; make the next version.

        Of the updates awaiting their fit, those take part whose fit has ended.
        """
        with self._lock:
            ready = self._awaiting.ready()
            result = step(
                self._state,
                [*self._pending.values(), *(update for update, _ in ready.values())],
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
            )
            # First what can fail (a full disk): then nothing has happened and the step can
            # be taken again.
            kept_versions = self._kept(self._awaiting.versions(without=ready))
            self._history.advance(result.state.version, result.state.params, kept_versions)
            refused = dict(self._refused)
            self._state = result.state
            self._pending.clear()
            self._refused.clear()
            for update in self._awaiting.drop(ready, self._fit_job):
                self._pending[update.key] = update
            store = self._history.store
            kept = {
                "versions": len(store.versions),
                "bytes": store.memory_used,
                "on_disk": store.on_disk,
            }
            awaiting = None if self.background is None else len(self._awaiting)
            return dataclasses.replace(
                result.report, refused=refused, history=kept, awaiting_fit=awaiting
            )

    def _kept(self, awaited: set[int]) -> set[int] | None:
        return self._tickets.outstanding() | awaited if self._tickets.ever_used else None

    # --- save and load ---------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write a checkpoint into `folder`; a crash leaves the old one or the new one."""
        with self._lock:
            tree, versions = self.to_tree()
            path = Path(folder).resolve()
            checkpoints = self._checkpoints.setdefault(path, Checkpoints(path))
            return checkpoints.write({"server": tree}, versions)

    def to_tree(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return all of the server's state as a tree, and its versions, for a checkpoint."""
        tree = {
            "version": self.version,
            "params": dict(self._state.params),
            "compensator": self._state.compensator,
            "aggregator": self._state.aggregator,
            "method": describe_method(self.method),
            "local": recipe_tree(self.local),
            "history": dataclasses.asdict(self._history.spec),
            "limits": dataclasses.asdict(self.limits),
            "inputs": None if self.inputs is None else dataclasses.asdict(self.inputs),
            "seed": self.seed,
            "tickets": self._tickets.to_json(),
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
    ) -> "Server":
        """Restore the newest sound checkpoint of a folder.

        Args:
            folder: Where `save` wrote.
            model: The model's structure, for methods that train it; others need none.
            method: Needed only if the method was made of classes that are not registered.
            local: Needed only if the loss was a function and not a name.
            executor: Where conversions are done; here when not given.
            background: Where surrogates are fitted while rounds go on. Updates that were
                awaiting their fit are fitted anew; without it they take part in the next step.

        Raises:
            CheckpointError: If no checkpoint is sound; a damaged newest one is passed over
                with a warning and the one before is used.
        """
        path = Path(folder).resolve()
        checkpoints = Checkpoints(path)
        tree, versions = checkpoints.read()
        settings = settings_of(
            tree["server"], method=method, local=local, executor=executor, background=background
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
        """Return the server that `to_tree` described, with the given settings."""
        state = ServerState(
            tree["version"], tree["params"], tree["compensator"], tree["aggregator"]
        )
        if model is not None:
            check_model(model)
            check_fits(model, state.params)
        server = cls.__new__(cls)
        server._assemble(model, settings, state)
        device = next(iter(state.params.values())).device
        for version in sorted(versions):
            params = versions[version]()
            server._history.store.put(version, {n: params[n].to(device) for n in state.params})
        server._tickets = Tickets.from_json(tree["tickets"])
        server._refused = Counter(tree["refused"])
        waiting = [(Update(**item["update"]), item["since"]) for item in tree["awaiting_fit"]]
        for update in [
            *(Update(**item) for item in tree["pending"]),
            *server._awaiting.resume(waiting, server._fit_job),
        ]:
            server._pending[update.key] = update
        return server


def _chosen(
    method: str | Method | None, compensator: Compensator | None, aggregator: Aggregator | None
) -> str | Method:
    if compensator is None and aggregator is None:
        return "unweighted" if method is None else method
    if method is not None:
        raise ConfigError("Server: give `method`, or `compensator` and `aggregator`, not both.")
    parts = {"compensator": compensator, "aggregator": aggregator}
    return Method(**{k: v for k, v in parts.items() if v is not None})  # type: ignore[arg-type]
