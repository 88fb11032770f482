import hashlib
import io
import os
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from unstale import data
from unstale.data import fetching
from unstale.errors import DataError

CONTENT = bytes(range(256)) * 1000  # several blocks


class Server:
    """A real server on the loopback: what it has, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.announce: Callable[[bytes], int | None] = len
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                body = outer.files.get(self.path)
                self.send_response(404 if body is None else 200)
                length = outer.announce(body or b"")
                if length is not None:
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def _unused(files: object) -> data.Dataset:
    raise AssertionError("fetched, not read")


def checksum(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"  # noqa: S324 -- as publishers do


def publish(*urls: str, content: bytes = CONTENT) -> None:
    layout = data.Layout(_unused, {"a.bin": checksum(content)}, ("toy",))
    download = data.Download(urls, "toy/a.bin", checksum(content))
    data.register("toy", data.Source("a toy", (layout,), (download,)), force=True)


def everything_under(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_a_file_is_brought_with_progress(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    publish(f"{server.url}/a.bin")
    seen: list[tuple[int, int | None]] = []
    folder = data.fetch("toy", tmp_path / "new" / "root", lambda *step: seen.append(step))
    assert folder == tmp_path / "new" / "root" / "toy"
    assert (folder / "a.bin").read_bytes() == CONTENT
    assert everything_under(tmp_path) == ["new/root/toy/a.bin"]
    assert len(seen) > 1
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert (folder / "a.bin").stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert data.check_one("toy", tmp_path / "new" / "root").status == "verified"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_verified_file_is_not_brought_again_and_a_wrong_one_is(
    server: Server, tmp_path: Path
) -> None:
    server.files["/a.bin"] = CONTENT
    publish(f"{server.url}/a.bin")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a.bin").write_bytes(CONTENT)
    data.fetch("toy", tmp_path)
    assert server.asked == []
    (tmp_path / "toy/a.bin").write_bytes(b"half")
    data.fetch("toy", tmp_path)
    assert server.asked == ["/a.bin"]
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT[:-1] + b"!"
    publish(f"{server.url}/a.bin")
    with pytest.raises(DataError, match=f"checksum {checksum(CONTENT)}. Found md5:") as error:
        data.fetch("toy", tmp_path)
    assert server.url in str(error.value)
    assert everything_under(tmp_path) == []


def test_a_wrong_download_does_not_replace_what_was_there(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = b"wrong"
    publish(f"{server.url}/a.bin")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a.bin").write_bytes(b"mine")
    with pytest.raises(DataError):
        data.fetch("toy", tmp_path)
    assert (tmp_path / "toy/a.bin").read_bytes() == b"mine"


def test_a_connection_that_breaks_off(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    server.announce = lambda body: len(body) + 5
    publish(f"{server.url}/a.bin")
    with pytest.raises(DataError, match=r"broke off|within reach"):
        data.fetch("toy", tmp_path)
    assert everything_under(tmp_path) == []


def test_a_server_that_announces_no_length(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    server.announce = lambda body: None
    publish(f"{server.url}/a.bin")
    seen: list[tuple[int, int | None]] = []
    data.fetch("toy", tmp_path, lambda *step: seen.append(step))
    assert seen[-1] == (len(CONTENT), None)


def test_a_server_that_does_not_stop(server: Server, tmp_path: Path, monkeypatch) -> None:
    server.files["/a.bin"] = CONTENT
    publish(f"{server.url}/a.bin")
    monkeypatch.setattr(fetching, "MAX_BYTES", 1000)
    with pytest.raises(DataError, match="at most 1000 bytes"):
        data.fetch("toy", tmp_path)
    assert everything_under(tmp_path) == []


def test_the_next_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    server.files.update({"/bad": b"wrong", "/good": CONTENT})
    publish(f"{server.url}/none", f"{server.url}/bad", f"{server.url}/good")
    data.fetch("toy", tmp_path)
    assert server.asked == ["/none", "/bad", "/good"]
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT


def test_all_failures_are_told(server: Server, tmp_path: Path) -> None:
    publish(f"{server.url}/one", f"{server.url}/two")
    with pytest.raises(DataError, match=r"/one .*404.*/two .*404.*by hand"):
        data.fetch("toy", tmp_path)


def test_without_a_network(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    publish(f"http://127.0.0.1:{port}/a.bin")
    with pytest.raises(DataError, match="should be within reach"):
        data.fetch("toy", tmp_path)
    assert everything_under(tmp_path) == []


def test_only_http(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    publish((tmp_path / "secret").as_uri())
    with pytest.raises(DataError, match="http or https"):
        data.fetch("toy", tmp_path / "root")


def test_another_place_to_load_from(server: Server, tmp_path: Path) -> None:
    server.files["/mine/a.bin"] = CONTENT
    publish("http://publisher.invalid/a.bin")
    data.fetch("toy", tmp_path, urls={"a.bin": f"{server.url}/mine/a.bin"})
    assert server.asked == ["/mine/a.bin"]


def test_interrupting_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    publish(f"{server.url}/a.bin")

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.fetch("toy", tmp_path, stop)
    assert everything_under(tmp_path) == []


def test_a_root_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    publish(f"{server.url}/a.bin")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="should be written under"):
        data.fetch("toy", tmp_path / "file")


# --- archives


def archive(**members: bytes | None) -> bytes:
    """Make a .tar.gz; None stands for a symbolic link to a file outside."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"toy/{name}")
            if content is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/hostname"
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def publish_archive(server: Server, content: bytes, expected: bytes = CONTENT) -> None:
    server.files["/toy.tar.gz"] = content
    layout = data.Layout(_unused, {"a": checksum(expected)}, ("toy",))
    download = data.Download(
        (f"{server.url}/toy.tar.gz",), "toy.tar.gz", checksum(content), members=("toy/a",)
    )
    data.register("toy", data.Source("a toy", (layout,), (download,)), force=True)


def test_only_the_named_members_are_taken_out(server: Server, tmp_path: Path) -> None:
    publish_archive(server, archive(**{"a": CONTENT, "b": b"other", "../../evil": b"evil"}))
    root = tmp_path / "x" / "root"
    assert data.fetch("toy", root) == root / "toy"
    assert everything_under(tmp_path) == ["x/root/toy/a"]
    assert (root / "toy/a").read_bytes() == CONTENT
    data.fetch("toy", root)
    assert server.asked == ["/toy.tar.gz"]


@pytest.mark.parametrize("content", [archive(b=b"other"), archive(a=None)])
def test_a_member_that_is_missing_or_no_file(
    server: Server, tmp_path: Path, content: bytes
) -> None:
    publish_archive(server, content)
    with pytest.raises(DataError, match="contain the file 'toy/a'"):
        data.fetch("toy", tmp_path)
    assert everything_under(tmp_path) == []


@pytest.mark.parametrize("content", [b"no archive", archive(a=CONTENT)[:-200]])
def test_an_archive_that_is_damaged(server: Server, tmp_path: Path, content: bytes) -> None:
    publish_archive(server, content)
    with pytest.raises(DataError, match=r"whole \.tar\.gz"):
        data.fetch("toy", tmp_path)
    assert everything_under(tmp_path) == []


# --- what is registered


def test_what_cannot_be_fetched_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="embedded"):
        data.fetch("digits", tmp_path)
    with pytest.raises(DataError, match=r"not published in a form.*numpy\.savez"):
        data.fetch("hapt", tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "svhn"])
def test_what_is_fetched_is_where_it_is_looked_for(name: str, tmp_path: Path) -> None:
    from unstale.data.registry import find_source

    source = find_source(name)
    brought = {p for d in source.downloads for p in (d.members or (d.path,))}
    layout = source.layouts[0]
    assert brought == {f"{layout.folders[0]}/{file}" for file in layout.files}
