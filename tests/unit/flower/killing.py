"""A process that dies at a chosen change of the disk."""

import os
from contextlib import contextmanager

import pytest

CHANGES = ("replace", "write", "fsync", "truncate", "unlink", "mkdir")


class Killed(BaseException):
    """No `except Exception` sees it, and after it no call changes the disk any more."""


@contextmanager
def killed_at(number, half=False):
    """Let the process die at the n-th call that changes the disk; count them."""
    real = {name: getattr(os, name) for name in CHANGES}
    calls = [0]

    def guarded(name):
        def call(*args, **options):
            calls[0] += 1
            if number is not None and calls[0] >= number:
                if half and name == "write" and calls[0] == number:
                    real[name](args[0], args[1][: len(args[1]) // 2])
                raise Killed
            # The disk of a test needs no syncing, which would take most of the time.
            return None if name == "fsync" else real[name](*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, guarded(name))
        yield calls
