"""`PageServer`: the live page on this machine alone, by the standard library.

`/` is a frame with a line of state above it, `/report` the report page in it, and `/state` says
what there is. The frame asks every two seconds; when there is something new, it loads the page
beside the old one, scrolls to where the reader was, and shows it.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from unstale.errors import ConfigError
from unstale.watch.live_page import LivePage

HOST = "127.0.0.1"
# Under other names a page from elsewhere might reach this server by its visitor's browser.
_NAMES = {HOST, "localhost"}
_FRAME = {"/": ("frame.html", "text/html"), "/frame.css": ("frame.css", "text/css"),
          "/frame.js": ("frame.js", "text/javascript")}  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class PageServer:
    """Serves a live page on 127.0.0.1 until it is closed; a context manager.

    Args:
        page: The page.
        port: The port; 0 for a free one.

    Raises:
        ConfigError: If the port cannot be used.
    """

    def __init__(self, page: LivePage, port: int = 0) -> None:
        try:
            self._server = _Server((HOST, port), _handler(page))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"`--port` should be a port of this machine that is free. Found {port} "
                f"({error}). Choose another one, or leave it out."
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # On Windows it would let two servers have one port.
    allow_reuse_address = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away in the middle is no fault."""


def _handler(page: LivePage) -> type[BaseHTTPRequestHandler]:
    answers: dict[str, Callable[[], tuple[str, str]]] = {
        "/state": lambda: (json.dumps(page.state()), "application/json"),
        "/report": lambda: (page.html(), "text/html"),
    }

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "unstale", ""

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in _NAMES:
                self.send_error(403)
            elif path in _FRAME:
                name, kind = _FRAME[path]
                text = (files("unstale.watch") / name).read_text(encoding="utf-8")
                self._answer(text, kind, _POLICY)
            elif path in answers:
                self._answer(*answers[path]())
            else:
                self.send_error(404)

        def _answer(self, text: str, kind: str, policy: str | None = None) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            # The report's own policy is in the page; nobody else may frame it.
            self.send_header("Content-Security-Policy", policy or "frame-ancestors 'self'")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the terminal shows the run."""

    return Handler
