"""A real Chromium driven over its debugging pipe: two file descriptors, JSON messages that end in a zero byte."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en-US",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab. `problems` collects console errors, uncaught exceptions and policy violations."""

    def __init__(self, commands: int, messages: int) -> None:
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._messages = os.fdopen(messages, "rb", buffering=0)
        self._pending = b""
        self._last_id = 0
        self._session = ""
        self.problems: list[str] = []
        self._events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            got = self._receive()
            if got.get("id") == self._last_id:
                assert "error" not in got, got["error"]
                result: dict[str, Any] = got["result"]
                return result
            self._note(got)

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False, mobile: bool = False) -> None:
        """Load a page and wait until the script has drawn the first state."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._note(self._receive())

    def run(self, script: str) -> Any:
        """Evaluate an expression (a promise is awaited) and return its value."""
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true, at most 10 s."""
        script = """new Promise((done) => {
            const end = Date.now() + 10000;
            const look = () => (CONDITION ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 20));
            look();
        })"""
        assert self.run(script.replace("CONDITION", f"({condition})")), f"never true: {condition}"

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "char", "keyUp") if key == "Enter" else ("rawKeyDown", "keyUp"):
            text = {"text": "\r"} if kind == "char" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def picture(self, path: Path) -> None:
        """Save the whole page as PNG."""
        got = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(got["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            received = os.read(self._messages.fileno(), 1 << 20)
            assert received, "Chromium ended"
            self._pending += received
        line, self._pending = self._pending.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run a Chromium with a fresh profile."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: apt-get install chromium"
    there_reads, here_writes = os.pipe()
    here_reads, there_writes = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The pipe's descriptors are 3 and 4 by Chromium's convention.
        line = f'exec "$0" "$@" 3<&{there_reads} 4>&{there_writes}'
        process = subprocess.Popen(
            ["/bin/bash", "-c", line, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(there_reads, there_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there_reads)
        os.close(there_writes)
        try:
            yield Browser(here_writes, here_reads)
        finally:
            process.terminate()
            process.wait(10)
