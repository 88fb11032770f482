"""The live page over real HTTP on this machine."""

import http.client
import json
import logging
import socket

import pytest
from fake_run import write_fake_run

from unstale.errors import ConfigError
from unstale.watch import LivePage, PageServer
from unstale.watch.words import state_in_words


def ask(url, path="", **headers):
    """Ask the server, with the path as it is."""
    connection = http.client.HTTPConnection(url.removeprefix("http://").strip("/"), timeout=600)
    connection.request("GET", f"/{path}", headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return found


def get(url, path=""):
    status, headers, text = ask(url, path)
    assert status == 200
    return headers, text


def files_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_frame_state_and_report(tmp_path):
    folder = write_fake_run(tmp_path / "run", rounds=10, methods=("unweighted", "convert"))
    before = files_in(folder)
    with PageServer(LivePage([folder], state_in_words)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        headers, frame = get(server.url)
        assert "frame.js" in frame
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        for asset, kind in (("frame.js", "javascript"), ("frame.css", "css")):
            assert kind in get(server.url, asset)[0]["Content-Type"]
        headers, text = get(server.url, "state")
        state = json.loads(text)
        assert (state["status"], headers["Cache-Control"]) == ("ended", "no-store")
        assert state["says"] == [f"{folder}: ended; {state['says'][0].split('; ')[1]}"]
        _, page = get(server.url, f"report?{state['version']}")
        assert '<figure class="chart' in page
    assert files_in(folder) == before, "watching writes nothing"


@pytest.mark.parametrize("path", ["x", "../pyproject.toml", "report/..", "frame.html", "state/"])
def test_nothing_else_is_served(tmp_path, path):
    with PageServer(LivePage([tmp_path], state_in_words)) as server:
        assert ask(server.url, path)[0] == 404


@pytest.mark.parametrize(
    ("host", "code"),
    [("evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403), ("localhost", 200)],
)
def test_only_by_the_names_of_this_machine(tmp_path, host, code):
    with PageServer(LivePage([tmp_path], state_in_words)) as server:
        assert ask(server.url, "state", Host=host)[0] == code


def test_it_listens_on_this_machine_only(tmp_path):
    with PageServer(LivePage([tmp_path], state_in_words)) as server:
        assert server._server.socket.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"`--port` should be .* Found {port}"):
            PageServer(LivePage([], state_in_words), port)


def test_the_page_is_made_anew_when_lines_come_and_not_too_often(tmp_path, monkeypatch, caplog):
    clock = Clock()
    folder = tmp_path / "run"
    page = LivePage([folder], state_in_words, clock)
    empty = page.state()["version"]
    assert "no run in the folder yet" in page.html()
    write_fake_run(folder, rounds=20, finished=False, methods=("unweighted",), seeds=(0,))
    made = []

    def build(folders):
        made.append(len(folders))
        clock.now += 2.0  # seconds that it takes
        return f"page {len(made)}"

    monkeypatch.setattr("unstale.watch.live_page._build", build)
    first = page.state()["version"]
    assert first != empty
    assert page.state()["version"] == first, "nothing is new"
    with (folder / "rounds" / "unweighted" / "seed-0.jsonl").open("a") as file:
        file.write('{"schema": 2, "ro')
    assert page.state()["version"] == first, "nine tenths of the time are the run's"
    clock.now += 18.0
    assert page.state()["version"] != first
    (folder / "summary.json").write_text("{}")
    page.state()
    assert page.html() == "page 3", "the end is shown at once"
    assert made == [1, 1, 1]


def test_a_half_written_line_is_neither_a_fault_nor_logged(tmp_path, caplog):
    folder = write_fake_run(
        tmp_path / "run", rounds=20, finished=False, methods=("unweighted",), seeds=(0,)
    )
    with (folder / "rounds" / "unweighted" / "seed-0.jsonl").open("a") as file:
        file.write('{"schema": 2, "ro')
    page = LivePage([folder], state_in_words)
    assert '<figure class="chart' in page.html()
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_damaged_folder_is_said_on_the_page_with_foreign_text_escaped(tmp_path):
    folder = tmp_path / "<b>run"
    folder.mkdir()
    (folder / "config.json").write_text('{"rounds": "<script>"}')
    page = LivePage([folder], state_in_words).html()
    assert "damaged" in page
    assert "<script>" not in page
    assert "<b>" not in page


def test_several_folders_are_one_page(tmp_path):
    folders = [
        write_fake_run(tmp_path / name, rounds=10, methods=("unweighted",), seeds=(0,))
        for name in ("a", "b")
    ]
    page = LivePage([*folders, tmp_path / "later"], state_in_words)
    assert "a · b" in page.html()
    assert page.state()["status"] == "waiting"
    assert len(page.state()["says"]) == 3
