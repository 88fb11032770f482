import pytest
import torch

from unstale.errors import ConfigError
from unstale.training.device import resolve_device


def test_devices_by_name():
    assert resolve_device("cpu") == resolve_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["nope", "", "meta", "cuda:99"])
def test_devices_that_are_not_there(name):
    with pytest.raises(ConfigError, match="device should be one that torch has here") as caught:
        resolve_device(name)
    assert "\n" not in str(caught.value)
