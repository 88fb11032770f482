"""The simulator: an engine that brings arrivals to the server in virtual time.

One round of the clock is one server step. A client that is asked in round t
starts from the current version; its update arrives `latency` rounds later, in
the same round for latency 0. Training itself is deferred to the arrival: until
then a job is three numbers, and its model is kept once per version however
many clients work on it.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError
from unstale.methods.base import trains_model
from unstale.params import Params
from unstale.privacy import Protection, protect
from unstale.run_folder import Round
from unstale.seeding import generator
from unstale.server import Server
from unstale.server.checkpoint import ReadParams
from unstale.server.history import VersionStore
from unstale.sim import oracle
from unstale.sim.evaluate import Scores, evaluate
from unstale.sim.local_statistics import LocalStatistics
from unstale.sim.scenario import Scenario
from unstale.sim.training import Work, train_cohort
from unstale.training.client import without
from unstale.training.local import LocalSpec
from unstale.training.losses import resolve_loss
from unstale.updates import Update


@dataclass(frozen=True, slots=True, order=True)
class Job:
    """A client's work under way."""

    due: int
    """The round in which its update arrives."""
    client: int
    version: int
    """The version it started from, which is also the round in which it started."""


class Simulation:
    """Clients, clock and server of one method in one scenario.

    Args:
        server: Steps once per round; its method decides what becomes of stale updates.
        model: The structure that clients train.
        scenario: Who is asked, and how late answers come.
        affected: The classes to report on; the scenario's own when None.
        delayed: False for the oracle: every update arrives in the round it was asked for.
        with_oracle: Report how far updates are from what clients would have sent today.
        evaluate_every: Rounds between evaluations; the last round is up to the caller.
        batched: Train a cohort stacked or in a loop; by device when None.
        device: Where clients train and models are evaluated.
        recipes: Clients that train by another recipe than the server assumes, for tests of what
            the server notices; all others train by the server's.
        protection: What every client does to its update before it sends it; nothing when None.
    """

    def __init__(
        self,
        server: Server,
        model: nn.Module,
        scenario: Scenario,
        *,
        affected: Sequence[int] | None = None,
        delayed: bool = True,
        with_oracle: bool = False,
        evaluate_every: int = 1,
        batched: bool | None = None,
        device: torch.device | str = "cpu",
        recipes: Mapping[int, LocalSpec] | None = None,
        protection: Protection | None = None,
    ) -> None:
        self.server = server
        self.model = model
        self.scenario = scenario
        self.affected = tuple(scenario.affected if affected is None else affected)
        self.delayed = delayed
        self.with_oracle = with_oracle
        self.evaluate_every = evaluate_every
        self.batched = batched
        self.device = torch.device(device)
        self.recipes = dict(recipes or {})
        self.protection = protection or Protection()
        if self.protection.enabled and server.statistics:
            raise ConfigError(
                "Clients that protect their updates should keep running statistics to themselves. "
                'Found local.buffers = "averaged" and a model with BatchNorm. Set it to "local".'
            )
        data = scenario.data
        self._x, self._y = data.x_train.to(self.device), data.y_train.to(self.device)
        self._x_test, self._y_test = data.x_test.to(self.device), data.y_test.to(self.device)
        self._jobs: list[Job] = []
        self._lost: list[Job] = []
        self._sent: Counter[int] = Counter()  # updates that have left each client's device
        # What clients hold, apart from what the server keeps: a version that the server's
        # cap has dropped is still on the devices that work on it.
        spec = server.settings.history
        self._models = VersionStore(spec.memory_bytes, spec.folder)
        # A model that only clients train may have BatchNorm and dropout.
        self._as_it_comes = not trains_model(server.method.compensator)
        self._statistics = LocalStatistics.of(model, server.local)
        # What attackers trained first, for those that send it again; by client.
        self._first: dict[int, Params] = {}
        self._clients = {scenario.name(client): client for client in range(scenario.num_clients)}
        self._register_clients()

    @property
    def round(self) -> int:
        """The number of rounds done, which is the server's version."""
        return self.server.version

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Clients' work under way, in the order in which it arrives."""
        return tuple(self._jobs)

    @property
    def lost(self) -> tuple[Job, ...]:
        """Work of clients that left, of which the server does not know yet."""
        return tuple(self._lost)

    @property
    def client_versions(self) -> list[int]:
        """The versions that clients at work hold, beside those that the server keeps."""
        return self._models.versions

    def run_round(self, *, evaluate_now: bool = False) -> Round:
        """Run one round and return its line.

        Args:
            evaluate_now: Evaluate whatever `evaluate_every` says.
        """
        began = time.perf_counter()
        now = self.round
        self._lose_work_of_absent(now)
        absent = self._hand_out(now)
        arriving = [job for job in self._jobs if job.due == now]
        updates = self._train(arriving)
        before = self._current() if self.with_oracle else {}
        truth = self._truth(arriving, now) if self.with_oracle else {}
        for update in updates:
            self.server.submit(update)
        self._jobs = [job for job in self._jobs if job.due != now]
        self._forget_unused_models()
        report = self.server.step(absent)
        line = report.line()
        if self.protection.is_private:
            line = dataclasses.replace(line, most_sent=max(self._sent.values(), default=0))
        if self.with_oracle:
            sent = oracle.deltas(updates, without=self.server.statistics)
            judged = oracle.errors(truth, sent, report.updates)
            made = {u.client_id: self._clients[u.client_id] for u in report.updates if u.stand_in}
            names = [name for name, client in made.items() if self._is_honest(client)]
            missed = self._would_send([made[name] for name in names], now, before)
            judged |= oracle.stand_in_error(dict(zip(names, missed, strict=True)), report.updates)
            line = dataclasses.replace(line, oracle=judged)
        if evaluate_now or report.version % self.evaluate_every == 0:
            scores = self.scores()
            line = dataclasses.replace(
                line,
                accuracy=scores.accuracy,
                affected_accuracy=scores.affected_accuracy,
                class_accuracy=scores.class_accuracy,
                loss=scores.loss,
            )
        return dataclasses.replace(line, seconds=time.perf_counter() - began)

    def scores(self) -> Scores:
        """Return the current model's scores on the test set of the last round."""
        tested = self.scenario.test_examples(max(0, self.round - 1))
        x, y = self._x_test, self._y_test
        if tested is not None:
            index = tested.to(self.device)
            x, y = x[index], y[index]
        params = self._current()
        loss = resolve_loss(self.server.local.loss)
        classes = self.scenario.data.num_classes
        return evaluate(
            self.model,
            self._statistics.added_to(params),
            x,
            y,
            classes,
            self.affected,
            loss,
            eval_mode=self._as_it_comes,
        )

    def _register_clients(self) -> None:
        """Tell the server of all clients and how late they are, as if it had measured that."""
        latency = self.scenario.latency
        for client in range(self.scenario.num_clients):
            late = latency.typical(client) if self.delayed else 0.0
            self.server.register(self.scenario.name(client), late)

    # --- one round's parts -------------------------------------------------------------

    def _lose_work_of_absent(self, now: int) -> None:
        """A client that leaves while it works loses the work; the server does not know yet."""
        here = self.scenario.availability.available
        self._lost += [job for job in self._jobs if not here(job.client, now)]
        self._jobs = [job for job in self._jobs if here(job.client, now)]

    def _hand_out(self, now: int) -> list[str]:
        """Ask the clients of the round; return the ids of those that are at work or away."""
        drawn = self.scenario.drawn(now, {job.client for job in self._jobs})
        for client in drawn.asked:
            name = self.scenario.name(client)
            # Asking anew is when a server learns that earlier work was lost.
            for job in [lost for lost in self._lost if lost.client == client]:
                self.server.release(name, job.version)
                self._lost.remove(job)
            version, _ = self.server.check_out(name)
            late = self.scenario.latency.rounds(client, now) if self.delayed else 0
            self._jobs.append(Job(now + late, client, version))
            if late and version not in self._models.versions:
                self._models.put(version, self._current())
        self._jobs.sort()
        return [self.scenario.name(client) for client in drawn.absent]

    def _train(self, jobs: Sequence[Job]) -> list[Update]:
        clients = [job.client for job in jobs]
        work = [self._work(job.client, job.version, self._model_of(job)) for job in jobs]
        deltas = self._trained(clients, work)
        self._sent.update(clients)
        updates = []
        for job, part, delta in zip(jobs, work, deltas, strict=True):
            sent = self._statistics.kept(job.client, part.params, delta, len(part.x))
            sent = self._leaving(job, dict(sent))
            updates.append(Update(self.scenario.name(job.client), job.version, sent, len(part.x)))
        return updates

    def _trained(self, clients: Sequence[int], work: Sequence[Work]) -> list[dict[str, Tensor]]:
        """Train clients by their recipes: the server's, except for those that have another."""
        by_recipe: dict[LocalSpec, list[int]] = {}
        for i, client in enumerate(clients):
            by_recipe.setdefault(self.recipes.get(client, self.server.local), []).append(i)
        deltas: list[dict[str, Tensor]] = [{} for _ in work]
        for spec, members in by_recipe.items():
            group = [work[i] for i in members]
            trained = train_cohort(self.model, group, spec, batched=self.batched)
            for i, delta in zip(members, trained, strict=True):
                deltas[i] = delta
        return deltas

    def _leaving(self, job: Job, delta: dict[str, Tensor]) -> Params:
        """Return what a client sends of what it has trained.

        Honest clients send it, protected if they are asked to. Attackers do not protect.
        """
        if self._is_honest(job.client):
            return self._protected(job, delta)
        plan = self.scenario.attack
        if plan.attack.remembers:
            self._first.setdefault(job.client, delta)
        return plan.sent(job.client, job.version, delta, self._first.get(job.client))

    def _is_honest(self, client: int) -> bool:
        return client not in self.scenario.attack.attackers

    def _protected(self, job: Job, delta: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return what leaves the device of an update; the same for every method of a seed."""
        if not self.protection.enabled:
            return delta
        noise = generator(self.scenario.seed, "protection", job.client, job.version)
        return protect(delta, self.protection, noise)

    def _truth(self, jobs: Sequence[Job], now: int) -> dict[oracle.Key, dict[str, Tensor]]:
        """Return what late clients would send today; an attacker has no truth to be far from."""
        late = [job for job in jobs if job.version < now and self._is_honest(job.client)]
        deltas = self._would_send([job.client for job in late], now, self._current())
        keys = [(self.scenario.name(job.client), job.version) for job in late]
        return dict(zip(keys, deltas, strict=True))

    def _would_send(
        self, clients: Sequence[int], now: int, params: Params
    ) -> list[dict[str, Tensor]]:
        work = [self._work(client, now, params) for client in clients]
        tracked = {*self.server.statistics, *self._statistics.names}
        deltas = self._trained(clients, work)
        return [dict(without(delta, tracked)) for delta in deltas]

    def _work(self, client: int, round: int, params: Params) -> Work:
        index = self.scenario.examples(client, round).to(self.device)
        shuffle = generator(self.scenario.seed, "batches", client, round)
        params = self._statistics.added_to(params, client)
        return Work(params, self._x[index], self._y[index], shuffle)

    def _model_of(self, job: Job) -> Params:
        params = self._models.get(job.version)
        return self._current() if params is None else params

    def _current(self) -> Params:
        params = self.server.weights_of(self.server.version)
        return self.server.params if params is None else params

    def _forget_unused_models(self) -> None:
        used = {job.version for job in self._jobs}
        self._models.drop([v for v in self._models.versions if v not in used])

    # --- save and load -----------------------------------------------------------------

    def to_tree(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return all state of server and engine as a tree, and the versions they need."""
        tree, versions = self.server.to_tree()

        def reader(version: int) -> ReadParams:
            return lambda: self._models.get(version) or {}

        held = {version: reader(version) for version in self._models.versions}
        engine = {
            "jobs": [[job.due, job.client, job.version] for job in self._jobs],
            "lost": [[job.due, job.client, job.version] for job in self._lost],
            "server_versions": sorted(versions),
            "statistics": self._statistics.to_tree(),
            **({"first": self._saved_first()} if self._first else {}),
            "sent": [[client, self._sent[client]] for client in sorted(self._sent)],
        }
        return {"server": tree, "engine": engine}, {**held, **versions}

    def _saved_first(self) -> dict[str, Any]:
        return {str(client): dict(delta) for client, delta in self._first.items()}

    def restore(self, tree: dict[str, Any], versions: dict[int, ReadParams]) -> None:
        """Go on from what `to_tree` described."""
        engine = tree["engine"]
        own = set(engine["server_versions"])
        self.server = Server.from_tree(
            tree["server"],
            {v: read for v, read in versions.items() if v in own},
            self.model,
            self.server.settings,
        )
        self._register_clients()
        self._jobs = [Job(*job) for job in engine["jobs"]]
        self._lost = [Job(*job) for job in engine["lost"]]
        self._statistics.restore(engine.get("statistics", {}))
        self._first = {
            int(client): {name: p.to(self.device) for name, p in delta.items()}
            for client, delta in engine.get("first", {}).items()
        }
        self._sent = Counter(dict(engine.get("sent", [])))
        for version in sorted({job.version for job in self._jobs} & set(versions)):
            params = self.server.weights_of(version)
            if params is None:  # beyond the server's cap: only clients still hold it
                read = versions[version]()
                params = {name: read[name].to(self.device) for name in self._current()}
            self._models.put(version, params)
