"""A robot's or hook's side of a conversation, on loopback: records what it got, answers what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Robot:
    """A service that always answers the same."""

    def __init__(self, status: int = 200, answer: object = None) -> None:
        self.status = status
        self.answer = b"" if answer is None else json.dumps(answer).encode()
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.url = ""

    @property
    def texts(self) -> list[str]:
        """Everything it got, as text."""
        return [json.dumps(document, ensure_ascii=False) for document in self.got]


@contextmanager
def serving(robot: Robot) -> Iterator[Robot]:
    """Let the robot listen."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            robot.got.append(json.loads(body))
            robot.paths.append(self.path)
            self.send_response(robot.status)
            if 300 <= robot.status < 400:
                self.send_header("Location", f"{robot.url}elsewhere")
            self.end_headers()
            self.wfile.write(robot.answer)

        def do_GET(self) -> None:
            robot.paths.append(f"GET {self.path}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    robot.url = f"http://127.0.0.1:{server.server_port}/send?key=s3cret"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield robot
    finally:
        server.shutdown()
        server.server_close()
