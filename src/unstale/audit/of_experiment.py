"""An audit of the model, data and recipe of an experiment."""

from pathlib import Path

import torch

from unstale.audit.audit import AuditPlan, Progress, audit_privacy
from unstale.audit.metrics.lpips import Lpips
from unstale.audit.result import PrivacyAudit
from unstale.check.trial import Client
from unstale.errors import ConfigError
from unstale.experiment.check import method_to_check
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.load_data import load_data
from unstale.experiment.model import model_for
from unstale.experiment.prepare import inputs_of
from unstale.experiment.threads import cpu_threads, threads_of
from unstale.inversion import Inversion
from unstale.methods import Convert
from unstale.sim import Scenario
from unstale.training.device import resolve_device


def audit_experiment(
    config: ExperimentConfig,
    *,
    method: str | None = None,
    plan: AuditPlan | None = None,
    attacked: int = 3,
    clients: int = 20,
    lpips: str | Path | None = None,
    device: str = "cpu",
    data_root: str | None = None,
    progress: Progress | None = None,
) -> PrivacyAudit:
    """Audit the model, the data and the recipe of an experiment.

    Args:
        config: The experiment. Attacked clients protect their updates as it says; its cohort,
            availability and drift are not used.
        method: The label of the `convert` method whose inversion is audited; by default the one
            labelled `convert`, else the first one, else the default settings.
        plan: What to try; its seed also draws partition and model.
        attacked: How many clients are attacked: slow ones first, which are the ones converted.
        clients: How many clients train the model, attacked ones included.
        lpips: The weights of LPIPS, if it should be measured.
        device: The torch device.
        data_root: The folder of data sets and weights; see `unstale.data.data_roots`.
        progress: Called after each client size.

    Raises:
        ConfigError: If a setting is wrong, or the data is text.
        DataError: If the data is not there.
    """
    plan = plan or AuditPlan(seed=config.seeds[0])
    if attacked < 1 or clients <= attacked:
        raise ConfigError(
            "audit: There should be at least one attacked client, and more clients than those. "
            f"Found {attacked} attacked of {clients}."
        )
    chosen = method_to_check(config, method)
    compensator = None if chosen is None else chosen.compensator
    settings = compensator.inversion if isinstance(compensator, Convert) else Inversion()
    dataset = load_data(config, data_root)
    if dataset.vocabulary is not None:
        raise ConfigError(
            "audit: The data should be images, signals or features. Found text, whose surrogates "
            "are vectors; what they tell of words is not measured yet."
        )
    where = resolve_device(device)
    perceptual = None if lpips is None else Lpips(lpips, where)
    model, _ = model_for(config, dataset, plan.seed, data_root)
    scenario = Scenario(config.scenario, dataset, plan.seed)
    late = [c for c in scenario.slow if scenario.latency.typical(c) > 0]
    order = [*late, *(c for c in range(scenario.num_clients) if c not in late)]
    members = order[: max(1, clients)]
    if len(members) < attacked:
        raise ConfigError(
            f"audit: The experiment should have {attacked} clients to attack. Found {len(members)}."
        )
    held = [torch.as_tensor(scenario.examples(client, 0)) for client in members]
    taken = torch.zeros(len(dataset.y_train), dtype=torch.bool)
    for index in held[:attacked]:
        taken[index] = True
    with cpu_threads(threads_of(config.threads)):
        return audit_privacy(
            model,
            local=config.local,
            inputs=inputs_of(model, dataset),
            clients=[_client(dataset.x_train, dataset.y_train, index, where) for index in held],
            attacked=tuple(range(attacked)),
            known=_client(dataset.x_train, dataset.y_train, ~taken, where),
            held_out=Client(dataset.x_test.to(where), dataset.y_test.to(where)),
            plan=plan,
            inversion=settings,
            protection=config.protection,
            lpips=perceptual,
            title=config.name,
            class_names=dataset.classes,
            progress=progress,
        )


def _client(x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, device: torch.device) -> Client:
    return Client(x[chosen].to(device), y[chosen].to(device))
