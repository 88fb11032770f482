"""A real Flower deployment on loopback for tests: SuperLink, SuperNodes, runs, and `kill -9`.

Nothing here leaves loopback, every port is a free one, and all that was started is killed at
the end, whatever happens. Flower's commands are waited for by what they say or do, never by a
fixed sleep.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from records import Records

import unstale
from marked_processes import MARK, kill, kill_all, marked

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower"
PROBE = Path(__file__).parent / "probing_app"
Value = bool | int | float | str
HANGS = 600.0  # seconds after which a test gives up; none is expected to come near


def quiet_environment(folder: Path, mark: str) -> dict[str, str]:
    """Return an environment in which Flower and Ray stay offline and touch nobody's home."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    # Without this file Ray asks a cloud's metadata address whether it is in that cloud.
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")
    paths = [Path(unstale.__file__).parents[1], EXAMPLE, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        # Apps are installed from what `flwr run` sends; the probing app also uses the example.
        "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
        "PYTHONUNBUFFERED": "1",
        "HOME": str(home),
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Else Ray looks up the route to 8.8.8.8 for an address of its own.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        # Where SuperLinks and SuperNodes look for work; a second by default.
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        MARK: mark,
    }


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], bool], what: str, every: float = 0.1) -> None:
    """Return as soon as `holds()` is true.

    Raises:
        TimeoutError: When it seems never to be.
    """
    end = time.monotonic() + HANGS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"Waited {HANGS:.0f} s for {what}.")
        time.sleep(every)


@dataclass
class Program:
    """A command that runs on, with what it writes in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """Return all that it has written."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Return as soon as it has written `text`; fail if it ends before."""

        def said() -> bool:
            if text in self.text():
                return True
            if self.process.poll() is not None:
                raise RuntimeError(f"It ended with {self.process.returncode}:\n{self.text()}")
            return False

        wait_until(said, f"'{text}' in {self.log.name}")

    @property
    def node_id(self) -> int:
        """The id that a SuperNode was given."""
        return int(self.text().split("SuperNode ID: ")[1].split()[0])


class Site:
    """One SuperLink with its SuperNodes and runs."""

    def __init__(
        self,
        folder: Path,
        *,
        certificates: Path | None = None,
        isolation: str = "subprocess",
        simulated_nodes: int | None = None,
    ) -> None:
        self.folder = folder
        self.certificates = certificates
        self.isolation = isolation
        self.simulated_nodes = simulated_nodes
        self.mark = secrets.token_hex(8)
        self.environment = quiet_environment(folder, self.mark)
        self.port = free_port()
        self.superlink: Program
        self._secret = folder / "superexec.secret"
        self._programs: list[Program] = []

    # --- long-running programs ----------------------------------------------------------

    def start(self, *command: object) -> Program:
        """Start a command of Flower's in a session of its own."""
        log = self.folder / f"{len(self._programs):02d}-{command[0]}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.folder, env=self.environment, start_new_session=True,
            )  # fmt: skip
        self._programs.append(Program(process, log))
        return self._programs[-1]

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it answers; again after a kill, with its database."""
        command: list[object] = ["--host", "127.0.0.1", "--port", self.port]
        command += ["--database", self.folder / "state.db", "--isolation", self.isolation]
        if self.simulated_nodes is not None:
            command.append("--simulation")
        if self.certificates is None:
            command.append("--insecure")
        else:
            command += ["--ssl-ca-certfile", self.certificates / "ca.crt"]
            command += ["--ssl-certfile", self.certificates / "server.pem"]
            command += ["--ssl-keyfile", self.certificates / "server.key"]
            command.append("--enable-supernode-auth")
        if self.isolation == "process":
            if not self._secret.exists():
                self._secret.write_text(secrets.token_hex(32))
            command += ["--superexec-auth-secret-file", self._secret]
        self.superlink = self.start("flower-superlink", *command)
        self.superlink.wait_for("Application startup complete")
        self._write_connection()

    def start_superexec(self) -> Program:
        """Start the process that starts ServerApps, where the SuperLink does not do it itself."""
        return self.start(
            "flower-superexec", "--runtime-api-address", f"127.0.0.1:{self.port}",
            *self._trust(), "--superexec-auth-secret-file", self._secret,
        )  # fmt: skip

    def start_node(
        self,
        config: Mapping[str, Value],
        *,
        key: str | None = None,
        trust: Sequence[object] | None = None,
    ) -> Program:
        """Start a SuperNode.

        Args:
            config: Its node config.
            key: The name of its key in the certificates' folder, where there is one.
            trust: How it talks to the SuperLink; as it should when not given.
        """
        command = [*(self._trust() if trust is None else trust)]
        command += ["--superlink", f"127.0.0.1:{self.port}", "--port", free_port()]
        command += ["--node-config", _pairs(config), "--max-retries", 3]
        if key is not None and self.certificates is not None:
            command += ["--auth-supernode-private-key", self.certificates / f"{key}.key"]
        return self.start("flower-supernode", *command)

    def start_nodes(self, *configs: Mapping[str, Value]) -> list[Program]:
        """Start SuperNodes, registered where that is needed, and wait until all are in."""
        keys = [f"node{number}" for number in range(len(configs))]
        if self.certificates is not None:
            for key in keys:
                self.register(key)
        nodes = [
            self.start_node(config, key=key) for config, key in zip(configs, keys, strict=True)
        ]
        for node in nodes:
            node.wait_for("SuperNode ID: ")
        return nodes

    def _trust(self) -> list[object]:
        if self.certificates is None:
            return ["--insecure"]
        return ["--root-certificates", self.certificates / "ca.crt"]

    # --- the flwr command ---------------------------------------------------------------

    def _write_connection(self) -> None:
        config = Path(self.environment["FLWR_HOME"]) / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        lines = ["[superlink]", 'default = "site"', "[superlink.site]"]
        lines.append(f'address = "127.0.0.1:{self.port}"')
        if self.certificates is None:
            lines.append("insecure = true")
        else:
            lines.append(f'root-certificates = "{self.certificates / "ca.crt"}"')
        config.write_text("\n".join([*lines, ""]))

    def flwr(self, *arguments: object) -> str:
        """Run `flwr ARGUMENTS` to its end and return what it printed."""
        done = subprocess.run(
            ["flwr", *map(str, arguments)], env=self.environment, cwd=self.folder,
            capture_output=True, text=True, timeout=HANGS, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"flwr {arguments} ended with {done.returncode}: {done.stdout}"
                               f"{done.stderr}")  # fmt: skip
        return done.stdout

    def register(self, key: str) -> None:
        """Register a node's public key."""
        assert self.certificates is not None
        self.flwr("supernode", "register", self.certificates / f"{key}.pub", "site")

    def run(self, app: Path = EXAMPLE, **config: Value) -> str:
        """Start a run of an app and return its id; `num_rounds=3` overrides `num-rounds`."""
        pairs = _pairs({name.replace("_", "-"): value for name, value in config.items()})
        command = ["run", app, "site", "--run-config", pairs, "--format", "json"]
        if self.simulated_nodes is not None:
            nodes = f"num-supernodes={self.simulated_nodes} client-resources-num-cpus=1"
            command += ["--federation-config", nodes]
        answer = self.flwr(*command)
        return str(json.loads(answer)["run-id"])

    def run_probe(self, records: Records, **config: Value) -> str:
        """Start a run of the probing app that leaves `records`."""
        # A round closes when the fast nodes have answered, however slow this machine is.
        settled: dict[str, Value] = {"close_deadline": HANGS, **config}
        return self.run(PROBE, folder=str(records.folder), trace=str(records.trace), **settled)

    def status(self, run: str) -> str:
        """Return how a run stands, such as `running` or `finished:completed`."""
        answer = self.flwr("ls", "site", "--run-id", run, "--format", "json")
        return str(json.loads(answer)["runs"][0]["status"])

    def wait(self, run: str) -> str:
        """Wait until a run has ended, and return how."""
        end = time.monotonic() + 2 * HANGS
        while not (status := self.status(run)).startswith("finished"):
            if time.monotonic() > end:
                raise TimeoutError(f"The run stands at '{status}' after {2 * HANGS:.0f} s.")
            # It ends with the run, and costs less than asking again and again.
            follower = self.start("flwr", "log", run, "site", "--stream")
            with contextlib.suppress(subprocess.TimeoutExpired):
                follower.process.wait(max(1.0, end - time.monotonic()))
            kill([follower.process.pid])
            follower.process.wait()
        return status

    def log_of(self, run: str) -> str:
        """Return what the ServerApp of a run has logged."""
        return self.flwr("log", run, "site", "--show")

    # --- kill -9 ------------------------------------------------------------------------

    def kill_server_app(self) -> None:
        """Kill the ServerApp's process and wait until it is gone."""
        pids = marked(self.mark, "flwr-serverapp")
        if not pids:
            raise RuntimeError("A ServerApp should be running. Found none.")
        kill(pids)
        wait_until(lambda: not marked(self.mark, "flwr-serverapp"), "the end of the ServerApp")

    def kill_superlink(self) -> None:
        """Kill the SuperLink's process alone and wait until its port is free again."""
        self.kill_program(self.superlink)

    def kill_program(self, program: Program) -> None:
        """Kill a process of ours with those of its group: a SuperNode with its ClientApp."""
        os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait()

    def close(self) -> None:
        """Kill whatever is left."""
        kill_all(self.mark)
        for program in self._programs:
            program.process.wait()


@contextmanager
def open_site(
    folder: Path,
    *,
    certificates: Path | None = None,
    isolation: str = "subprocess",
    simulated_nodes: int | None = None,
) -> Iterator[Site]:
    """Start a SuperLink in a folder; at the end everything that runs there is killed.

    Args:
        folder: Where state, logs and Flower's home go.
        certificates: A folder that `make_certificates` wrote: TLS and node keys; plain without.
        isolation: `process` runs ServerApps under a separate SuperExec, which is started too.
        simulated_nodes: A SuperLink that simulates so many nodes on Ray instead of waiting.
    """
    site = Site(folder, certificates=certificates, isolation=isolation,
                simulated_nodes=simulated_nodes)  # fmt: skip
    try:
        site.start_superlink()
        if isolation == "process":
            site.start_superexec()
        yield site
    finally:
        site.close()


def three_nodes(slow_rounds: int) -> list[dict[str, Value]]:
    """Return the configs of three nodes, of which the last is slow and alone in its class."""
    configs: list[dict[str, Value]] = [
        {"partition-id": number, "num-partitions": 3} for number in range(3)
    ]
    configs[-1]["slow-rounds"] = slow_rounds
    return configs


def _pairs(config: Mapping[str, Value]) -> str:
    """Return a config as Flower's commands take it: TOML values, separated by spaces."""
    return " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
