"""The watch over the network itself: it sees what it should, or nothing that it shows is true."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "loopback_only.py"
CLIENT = """
import contextlib, socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, "192.0.2.77"),
    (socket.AF_INET6, socket.SOCK_STREAM, "2001:db8::7"),
    (socket.AF_INET, socket.SOCK_DGRAM, "198.51.100.7"),
]:
    if address in sys.argv[1:]:
        with socket.socket(family, kind) as out, contextlib.suppress(OSError):
            if kind == socket.SOCK_DGRAM:
                out.sendto(b"x", (address, 53))
            else:
                out.connect((address, 80))
"""


def namespaces_are_allowed():
    if not all(map(shutil.which, ("unshare", "ip", "strace"))):
        return False
    entered = ["unshare", "--map-root-user", "--net", "strace", "-qq", "-o", "/dev/null", "true"]
    return subprocess.run(entered, capture_output=True, check=False).returncode == 0


def watched(*addresses):
    if not namespaces_are_allowed():
        pytest.skip("needs unshare, ip and strace, and to be allowed to use them")
    command = [sys.executable, SCRIPT, "--command", sys.executable, "-c", CLIENT, *addresses]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout


def test_loopback_passes():
    code, out = watched()
    assert code == 0, out
    assert "1 to 127.0.0.1" in out


@pytest.mark.parametrize("address", ["192.0.2.77", "2001:db8::7", "198.51.100.7"])
def test_anything_else_is_found_though_it_fails(address):
    code, out = watched(address)
    assert code == 1
    assert f"tried {address} port" in out


def test_every_form_in_which_an_address_is_named():
    from loopback_only import addresses, is_local

    trace = """\
7<ray::A b> connect(3, {sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr("127.3.2.1")}, 16 <unfinished ...>
7<ray::A b> <... connect resumed>)          = 0
8 connect(4, {sa_family=AF_INET6, sin6_port=htons(2), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::ffff:127.0.0.1", &sin6_addr), sin6_scope_id=0}, 28) = 0
8<x> connect(5, {sa_family=AF_UNIX, sun_path="/tmp/s"}, 110) = 0
8<x> sendto(5, ""..., 4, MSG_NOSIGNAL, NULL, 0) = 4
9<y> sendto(6, ""..., 4, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("8.8.4.4")}, 16) = 4
9<y> sendmmsg(6, [{msg_hdr={msg_name={sa_family=AF_INET, sin_port=htons(5), sin_addr=inet_addr("169.254.169.254")}, msg_namelen=16}}], 1, 0) = 1
9<y> connect(7, {sa_family=AF_VSOCK, svm_cid=2, svm_port=1}, 16) = -1
"""  # noqa: E501
    seen = addresses(trace.splitlines())
    assert dict(seen) == {
        ("ray::A b", "connect", "127.3.2.1", "1"): 1,
        ("?", "connect", "::ffff:127.0.0.1", "2"): 1,
        ("x", "connect", "AF_UNIX", ""): 1,
        ("y", "sendto", "8.8.4.4", "53"): 1,
        ("y", "sendmmsg", "169.254.169.254", "5"): 1,
        ("y", "connect", "AF_VSOCK", ""): 1,
    }
    assert [one[2] for one in seen if not is_local(one[2])] == [
        "8.8.4.4",
        "169.254.169.254",
        "AF_VSOCK",
    ]
