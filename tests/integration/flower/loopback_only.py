"""Run tests where nothing but loopback exists, and see whether they try to reach anything else.

    python tests/integration/flower/loopback_only.py [ARGUMENTS OF PYTEST]
    python tests/integration/flower/loopback_only.py --here [ARGUMENTS OF PYTEST]
    python tests/integration/flower/loopback_only.py [--here] --command PROGRAM [ARGUMENTS]

The tests run in a network namespace that has loopback alone, so nothing can leave it, and tests
that pass there need nothing else. And strace watches every process that they start, so what is
tried in vain is found too. It ends with 1 if the tests fail, if an address other than 127.0.0.0/8
and ::1 was named, or if nothing was seen at all.

A program may look at which networks there are before it tries one (Ray does), so `--here` watches
without a namespace. It is strict: a machine's own address on a network is not loopback, nor is
an address for which a UDP socket only asks the way.

Needs Linux with `unshare` (user namespaces allowed), `ip` and `strace`.
"""

import ipaddress
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
INSIDE = "UNSTALE_LOOPBACK_ONLY"
# Whatever starts Flower or Ray.
TESTS = [str(HERE), str(HERE.parent / "test_ray_executor.py")]
# Everything that names an address to the kernel.
CALLS = "connect,sendto,sendmsg,sendmmsg"

# 4711<ray::Actor> connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("…")}, 16
_LINE = re.compile(r"^\d+(?:<(?P<program>.*?)>)? +(?P<call>\w+)\(")
_ADDRESS = re.compile(
    r'sin_port=htons\((?P<port4>\d+)\), sin_addr=inet_addr\("(?P<ip4>[^"]+)"\)'
    r"|sin6_port=htons\((?P<port6>\d+)\)[^}]*?"
    r'inet_pton\(AF_INET6, "(?P<ip6>[^"]+)"'
)
_FAMILY = re.compile(r"sa_family=(AF_\w+)")
# Within a machine: files, its own kernel, and the "no address" that dissolves a connection.
_LOCAL_FAMILIES = {"AF_UNIX", "AF_NETLINK", "AF_UNSPEC", "AF_ALG"}


def addresses(lines: Iterable[str]) -> Counter[tuple[str, str, str, str]]:
    """Count what strace saw, by program, call, address or family, and port."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for line in lines:
        begun = _LINE.match(line)
        if begun is None:  # the end of a call that was interrupted; its address was named before
            continue
        who = begun["program"] or "?", begun["call"]
        found = [(m["ip4"] or m["ip6"], m["port4"] or m["port6"]) for m in _ADDRESS.finditer(line)]
        seen.update((*who, *one) for one in found)
        families = [f for f in _FAMILY.findall(line) if f not in ("AF_INET", "AF_INET6")]
        seen.update((*who, family, "") for family in families)
    return seen


def is_local(address: str) -> bool:
    """Return whether an address or family is one that stays on this machine, by itself."""
    if address.startswith("AF_"):
        return address in _LOCAL_FAMILIES
    ip = ipaddress.ip_address(address)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    # To connect to 0.0.0.0 or :: is to connect to loopback, in Linux.
    return ip.is_loopback or ip.is_unspecified


def judge(seen: Counter[tuple[str, str, str, str]]) -> tuple[list[str], list[str]]:
    """Return what to print of it, and what should not have been there."""
    kinds = Counter[str]()
    for (_, _, address, _), count in seen.items():
        kinds[address if is_local(address) else "elsewhere"] += count
    told = [f"  {count:7d} to {address}" for address, count in kinds.most_common()]
    bad = [
        f"  {program} tried {address} port {port} by {call}, {count} times"
        for (program, call, address, port), count in sorted(seen.items())
        if not is_local(address)
    ]
    return told, bad


def watch(command: list[str]) -> int:
    """Run a command under strace, in the namespace, and judge what it did."""
    with tempfile.TemporaryDirectory(prefix="loopback-") as folder:
        trace = Path(folder) / "trace"
        strace = ["strace", "-f", "--seccomp-bpf", "--decode-pids=comm", "-qq", "-s", "0"]
        strace += ["-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(trace), "--"]
        status = subprocess.run([*strace, *command], check=False).returncode
        with trace.open(errors="replace") as lines:
            seen = addresses(lines)
    told, bad = judge(seen)
    print("Addresses that were named to the kernel:", *told, sep="\n")
    print(f"{command[0]} ended with {status}.")
    if bad:
        print("Not loopback:", *bad, sep="\n")
    elif all(address.startswith("AF_") for _, _, address, _ in seen):
        print("No connection was seen at all, so nothing is shown.")
        return 1
    else:
        print("All of them are loopback or within the machine.")
    return 1 if bad or status else 0


def main(arguments: list[str]) -> int:
    """Go into a namespace of our own, unless told to stay here; then run and watch."""
    here = arguments[:1] == ["--here"]
    if not here and INSIDE not in os.environ:
        again = [sys.executable, __file__, *arguments]
        environment = {**os.environ, INSIDE: "1"}
        inner = ["unshare", "--map-root-user", "--net", "--", *again]
        return subprocess.run(inner, env=environment, check=False).returncode
    if here:
        arguments = arguments[1:]
    elif not loopback_is_all():
        print("There should be loopback alone.")
        return 1
    if arguments[:1] == ["--command"]:
        return watch(arguments[1:])
    return watch([sys.executable, "-m", "pytest", "--all", "-q", *(arguments or TESTS)])


def loopback_is_all() -> bool:
    """Switch loopback on and return whether there is nothing else."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    links = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True)
    return {line.split()[1] for line in links.stdout.splitlines()} == {"lo"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
