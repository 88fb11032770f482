"""What Flower expects of a process in which it makes messages."""

import pytest


@pytest.fixture
def in_a_run():
    """Flower makes messages only within a run."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 3
    yield
    TaskIdentity._run_id = TaskIdentity._node_id = TaskIdentity._task_id = None
