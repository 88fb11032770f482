"""The command line in a folder of the test's own, the quickstart to run there, and a browser."""

from importlib import resources

import command_line
import pytest
from headless import Browser


@pytest.fixture
def start(tmp_path):
    """Start `unstale ARGUMENTS` in the test's folder; what is left running is killed."""
    started = []

    def run(*arguments, **options):
        started.append(command_line.start(tmp_path, *arguments, **options))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def finish(start):
    """Run `unstale ARGUMENTS` to its end; return its exit code, stdout and stderr."""
    return lambda *arguments, **options: command_line.finish(start(*arguments, **options))


@pytest.fixture
def experiment(tmp_path):
    """A copy of the quickstart, so that nobody changes it while a test runs."""
    text = (resources.files("unstale.experiment") / "quickstart.toml").read_text("utf-8")
    (tmp_path / "my quickstart.toml").write_text(text)
    return "my quickstart.toml"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One page of a headless Chromium."""
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
