"""Where Alertmanager posts to: a small HTTP server on loopback, one path, bounded in what it reads."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/alertmanager"
MOST_BYTES = 4 << 20  # 71 alerts of a node are 150 KB
_TIMEOUT_S = 30.0


class RelayServer:
    """Listens until closed. Bad requests get a 4xx, so that Alertmanager does not repeat them."""

    def __init__(self, host: str, port: int, accept: Callable[[bytes], None], token: str) -> None:
        """Bind. Raises OSError when it cannot.

        Args:
            accept: takes a body; raises ValueError saying what is wrong with it.
            token: what a request must carry as bearer; "" for none.
        """

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_POST(self) -> None:
                status, said = _answered(self, accept, token)
                body = f"{said}\n".encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Say nothing: a request is no event of the node."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port

    def serve(self) -> None:
        """Answer until closed by another thread."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop listening."""
        threading.Thread(target=self._server.shutdown, daemon=True).start()


def _answered(request: BaseHTTPRequestHandler, accept: Callable[[bytes], None], token: str) -> tuple[int, str]:
    if request.path != PATH:
        return 404, f"post to {PATH}"
    if token and not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {token}".encode()):
        return 401, "the bearer token is not the one of --token-file"
    length = request.headers.get("Content-Length", "")
    if not length.isdecimal() or len(length) > 9:
        return 411, "Content-Length is missing"
    if int(length) > MOST_BYTES:
        return 413, f"more than {MOST_BYTES} bytes"
    try:
        accept(request.rfile.read(int(length)))
    except ValueError as error:
        return 400, str(error)
    return 200, "ok"
