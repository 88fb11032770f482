"""Standing in with few iterations, and what tests of it look at."""

import torch
from late_world import LOCAL, converting

import unstale as us

FEW = converting(sparsity=0, iterations=4, warm_iterations=2, max_loss=10.0)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def kinds(outcome, client=None):
    return [n.kind for n in outcome.notes if client in (None, n.client_id)]


def added(outcome):
    return {u.client_id: u for u in outcome.updates if u.stand_in}


def trained(world, compensator, state, client, version, examples=12, local=LOCAL):
    """Return what the client's surrogate changes at a version: the definition of a stand-in."""
    surrogate = compensator.surrogates(state)[client]
    recipe = compensator.inversion.local_for(local, examples)
    weights = world.weights[version]
    return us.local_update(world.model, weights, surrogate.x, surrogate.labels, recipe)


def with_entry(state, client, **changes):
    clients = state["clients"]
    return {**state, "clients": {**clients, client: {**clients[client], **changes}}}
