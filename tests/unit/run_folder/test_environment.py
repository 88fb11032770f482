import json

import torch

import unstale
from unstale.run_folder import environment


def test_describes_this_machine():
    found = environment.describe_environment(torch.device("cpu"), "unstale run x")
    assert found["unstale"] == unstale.__version__
    assert found["torch"] == torch.__version__
    assert found["command"] == "unstale run x"
    assert found["device"] == "cpu"
    assert found["cores"] >= 1
    assert found["cpu"]
    assert found["gpu"] is None
    assert json.loads(json.dumps(found)) == found
