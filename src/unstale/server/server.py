"""`Server`: open work, arrivals, history and checkpoints around the pure step."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from unstale.errors import ConfigError
from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.inversion import InputSpec
from unstale.methods import Compensator, Method
from unstale.methods.aggregate import Aggregator
from unstale.methods.base import trains_model
from unstale.methods.server_optimizers import ServerOptimizer
from unstale.params import Params, clone, params_of
from unstale.privacy.storage import Storage
from unstale.seeding import generator
from unstale.server.checks import Limits, check_update, is_client_id, owned, refuse, shown
from unstale.server.history import HistorySpec
from unstale.server.parts import ServerParts
from unstale.server.report import Report
from unstale.server.saving import ServerSaving
from unstale.server.settings import ServerSettings, chosen_method
from unstale.server.step import initial_state, step
from unstale.training.client import statistics_of
from unstale.training.local import LocalSpec
from unstale.training.model_checks import check_model
from unstale.updates import Receipt, TrainingTools, Update


class Server(ServerSaving):
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
        optimizer: How the weights move by what was aggregated: a server optimizer by name, as a
            table with `name` and settings, or an object such as `FedAdam(lr=0.05)`.

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
        optimizer: str | Mapping[str, Any] | ServerOptimizer = "plain",
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
            optimizer,
        )
        super().__init__(_new_parts(model, settings, None))

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
        return cls._around(_new_parts(model, settings, params))

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
            self._parts.clients.register(client_id, latency)

    def check_out(self, client_id: str) -> tuple[int, dict[str, torch.Tensor]]:
        """Return the current version and weights; the version is kept until the client answers."""
        if not is_client_id(client_id):
            raise ConfigError(
                "`client_id` should be a non-empty string of valid Unicode. "
                f"Found {shown(client_id)}."
            )
        with self._lock:
            self._parts.tickets.open(client_id, self.version)
            return self.version, self.params

    def release(self, client_id: str, version: int | None = None) -> None:
        """Stop waiting for a client's update from one version, or from all that it checked out."""
        with self._lock:
            self._parts.tickets.release(client_id, version)

    def check(self, update: Update) -> Receipt:
        """Check an update without accepting it, for engines that log it before `submit`."""
        with self._lock:
            found = self._fault(update)
            return found or Receipt(True)

    def _fault(self, update: Update) -> Receipt | None:
        """Return why an update cannot be accepted, or None."""
        state = self._parts.state
        return check_update(update, state.params, state.version, self.limits, self.statistics)

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
            parts = self._parts
            receipt = None if checked else self._fault(update)
            if receipt is None and parts.tickets.has_answered(
                update.client_id, update.base_version
            ):
                receipt = refuse(
                    "repeated",
                    "A client should send one update per base version. Found a second one of "
                    f"'{update.client_id}' for version {update.base_version}. Nothing needs to "
                    "be done: the first one counts.",
                )
            if receipt is not None:
                parts.arrivals.refuse(receipt.code)
                return receipt
            taken = owned(update, parts.state.params)
            parts.arrivals.take(taken, parts.state.version, parts.fit_job)
            parts.tickets.answer(*taken.key)
            return Receipt(True)

    def step(self, absent: Iterable[str] | None = ()) -> Report:
        """Compensate and aggregate the updates that have arrived into the next version.

        Updates that await their fit take part once it has ended.

        Args:
            absent: Clients that this round would have asked, had they not been at work or
                away. Methods such as `convert` stand in for those that they know, unless an
                update of the client itself has arrived. A client whose late update arrives in
                a round that names it here is also stood in for when it next checks out, so
                that it takes part as often as without delay. None to stand in for nobody in
                this round.
        """
        with self._lock:
            parts, version = self._parts, self.version
            ready = parts.arrivals.ready()
            arrivals = parts.arrivals.taking_part(ready)
            parts.clients.observe(arrivals, version)
            prefits = {key: made for key, (_, made) in ready.items() if made is not None}
            result = step(
                parts.state,
                arrivals,
                method=self.method,
                optimizer=self.optimizer,
                local=self.local,
                history=parts.history.get,
                rng=generator(self.seed, "server", version),
                kept_versions=parts.history.store.versions,
                tools=TrainingTools(self.model, self.inputs, self.executor, prefits),
                absent=absent,
                asked=parts.tickets.at_work_on(version),
                clients=parts.clients.latencies(version, parts.tickets.oldest()),
                statistics=self.statistics,
            )
            # First what can fail (a full disk), so that the step can be repeated after an error.
            needed = parts.tickets.outstanding() | parts.arrivals.versions_awaiting(ready)
            parts.history.advance(
                result.state.version,
                result.state.params,
                needed if parts.tickets.ever_used else None,
            )
            refused = parts.arrivals.refused
            parts.state = result.state
            parts.arrivals.stepped(ready, parts.fit_job)
            return dataclasses.replace(
                result.report,
                refused=refused,
                history=parts.history.store.usage(),
                awaiting_fit=parts.arrivals.num_awaiting_fit,
            )


def _new_parts(model: nn.Module, settings: ServerSettings, given: Params | None) -> ServerParts:
    """Return the parts of a server at version 0; `given` weights replace the model's."""
    method = settings.chosen
    check_model(model, stateful=not trains_model(method.compensator))
    statistics = statistics_of(model) if settings.local.buffers == "averaged" else {}
    params = {**params_of(model), **statistics} if given is None else clone(given)
    state = initial_state(params, method, settings.chosen_optimizer)
    parts = ServerParts.around(state, model, settings, frozenset(statistics))
    parts.history.advance(0, params, None)
    return parts
