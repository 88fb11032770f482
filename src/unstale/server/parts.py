"""The parts of a server: everything of it that changes, as one object and as a tree."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from unstale.inversion import Surrogate
from unstale.methods import Method
from unstale.methods.absence import stood_in_for
from unstale.methods.base import trains_model
from unstale.methods.conversion.prefit import FitJob, fit_job_of, surrogates_of
from unstale.methods.server_optimizers import ServerOptimizer
from unstale.params import Params
from unstale.privacy.storage import WITHOUT_MEMORY
from unstale.seeding import generator
from unstale.server.arrivals import Arrivals
from unstale.server.checkpoint import ReadParams
from unstale.server.history import History
from unstale.server.open_work import Tickets
from unstale.server.registration import Registration
from unstale.server.saved_parts import check_fits, readers, settings_tree
from unstale.server.settings import ServerSettings
from unstale.server.step import ServerState
from unstale.training.model_checks import check_model
from unstale.updates import ServerView, TrainingTools, Update

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ServerParts:
    """What a server consists of: its settings, and all that changes while it works."""

    model: nn.Module | None
    settings: ServerSettings
    method: Method
    """Of the settings, as one object: made once."""
    optimizer: ServerOptimizer
    """Likewise."""
    statistics: frozenset[str]
    """Names in the weights that are running statistics."""
    state: ServerState
    history: History
    tickets: Tickets
    clients: Registration
    arrivals: Arrivals

    @classmethod
    def around(
        cls,
        state: ServerState,
        model: nn.Module | None,
        settings: ServerSettings,
        statistics: frozenset[str],
    ) -> "ServerParts":
        """Return the parts of a server to which nothing has come yet."""
        return cls(
            model,
            settings,
            method := settings.chosen,
            settings.chosen_optimizer,
            statistics,
            state,
            History(settings.history, method.compensator.lookback),
            Tickets(),
            Registration(),
            Arrivals(settings.background, model),
        )

    def surrogates(self) -> dict[str, Surrogate]:
        """Return the clients' surrogates, from which their next fits start."""
        return surrogates_of(self.method.compensator, self.state.compensator)

    def stood_in_for(self) -> frozenset[str]:
        """Return the clients that the method would stand in for now, were they absent."""
        return stood_in_for(self.method.compensator, self.state.compensator, self.state.version)

    def fit_job(self, update: Update, since: int) -> FitJob | None:
        """Return the fit that can be computed in the background for an update, or None.

        Its random draws depend on `since`, the version at which the update arrived, so a
        server that is loaded from a checkpoint repeats the same fit.
        """
        settings = self.settings
        view = ServerView(
            self.state.version,
            self.state.params,
            self.history.get,
            settings.local,
            generator(settings.seed, "server", since),
            frozenset(self.history.store.versions),
            TrainingTools(self.model, settings.inputs),
        )
        return fit_job_of(self.method.compensator, update, self.state.compensator, view)

    def to_tree(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return everything as a tree, and readers of the kept versions, for a checkpoint.

        Without what the method remembers of clients, if `storage` says so.
        """
        keeps = self.settings.storage.keeps_memory
        tree = {
            "version": self.state.version,
            "params": dict(self.state.params),
            "compensator": self.state.compensator if keeps else self.method.compensator.init(),
            "aggregator": self.state.aggregator,
            "optimizer_state": self.state.optimizer,
            "owed": sorted(self.state.owed),
            "statistics": sorted(self.statistics),
            **settings_tree(self.settings),
            "tickets": self.tickets.to_json(),
            "clients": self.clients.to_json(),
            **self.arrivals.to_tree(),
        }
        return tree, readers(self.history)

    @classmethod
    def from_tree(
        cls,
        tree: Mapping[str, Any],
        versions: Mapping[int, ReadParams],
        model: nn.Module | None,
        settings: ServerSettings,
    ) -> "ServerParts":
        """Return the parts from the results of `to_tree`, with the given settings.

        Raises:
            CheckpointError: If the model has other parameters.
            ModelError: If the method cannot train the model.
        """
        state = ServerState(
            tree["version"],
            tree["params"],
            tree["compensator"],
            tree["aggregator"],
            # Not in checkpoints from before there were server optimizers.
            tree.get("optimizer_state", {}),
            # Nor in those from before turns were counted.
            frozenset(tree.get("owed", ())),
        )
        parts = cls.around(state, model, settings, frozenset(tree.get("statistics", ())))
        if model is not None:
            check_model(model, stateful=not trains_model(parts.method.compensator))
            check_fits(model, state.params)
        if tree.get("storage", {}).get("checkpoints") == WITHOUT_MEMORY:
            logger.warning(
                "The checkpoint of version %d has no memory of clients: %s begins anew with them.",
                state.version,
                parts.method.name,
            )
        parts._restore_history(versions)
        parts.tickets = Tickets.from_json(tree["tickets"])
        if "clients" in tree:  # not in checkpoints from before there was a registration
            parts.clients = Registration.from_json(tree["clients"])
        parts.arrivals.restore(tree, parts.fit_job)
        return parts

    def _restore_history(self, versions: Mapping[int, ReadParams]) -> None:
        now: Params = self.state.params
        device = next(iter(now.values())).device
        for version in sorted(versions):
            params = versions[version]()
            self.history.store.put(version, {n: params[n].to(device) for n in now})
