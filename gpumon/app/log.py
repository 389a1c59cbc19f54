"""Logging to standard error: JSON lines for services, readable lines on a terminal.

A log line never raises into the code that logs and never waits for a slow reader: lines go through a bounded queue
to one writer thread, and what does not fit is counted. Values are made printable first; those whose name speaks of a
secret are hidden.
"""

from __future__ import annotations

import json
import math
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import structlog

from gpumon.app.log_limit import Limit

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SECRET = re.compile(r"token|secret|passw|credential|authorization|cookie|cmdline|environ", re.IGNORECASE)
_LONGEST_VALUE = 2000  # characters; a line stays readable and the queue stays small
_DEEPEST = 4
_WAITING_LINES = 1000


def configure(level: str, form: str) -> None:
    """Set up structlog for the process. `form` is json, text, or auto: text when standard error is a terminal."""
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            Limit(),
            structlog.processors.add_log_level,
            _with_exception,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _render_text if text else _render_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=_QUEUED),  # type: ignore[arg-type]  # write() and flush() suffice
        cache_logger_on_first_use=False,
    )


class _QueuedStream:
    """A text stream whose write never blocks. One daemon thread hands the lines to file descriptor 2."""

    def __init__(self) -> None:
        self._lines: Final[queue.Queue[str]] = queue.Queue(_WAITING_LINES)
        self._thread: threading.Thread | None = None
        self._started_by = 0
        self.dropped = 0

    def write(self, text: str) -> int:
        """Take a line, or count it as dropped when the reader is too slow."""
        if self._started_by != os.getpid():
            self._started_by = os.getpid()
            self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
            self._thread.start()
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the writer thread is never waited for here."""

    def drain(self, timeout_s: float) -> None:
        """Wait until the waiting lines are written, at most so long. For the end of the process."""
        waiter = threading.Thread(target=self._lines.join, daemon=True)  # join() itself takes no time limit
        waiter.start()
        waiter.join(timeout_s)

    def _drain(self) -> None:
        while True:
            text = self._lines.get()
            try:
                data = text.encode("utf-8", "backslashreplace")
                while data:
                    data = data[os.write(2, data) :]
            except OSError:  # closed, full or broken: the line is lost, the next one is tried
                self.dropped += 1
            finally:
                self._lines.task_done()


_QUEUED = _QueuedStream()


def dropped_lines() -> int:
    """Return how many lines could not be written so far."""
    return _QUEUED.dropped


def drain(timeout_s: float = 0.5) -> None:
    """Give waiting lines a last chance before the process ends."""
    _QUEUED.drain(timeout_s)


def _with_exception(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the exception being handled into the line: the last calls and what was raised, as text."""
    if event.pop("exc_info", None) and (error := sys.exc_info()[1]) is not None:
        event["exception"] = "".join(traceback.format_exception(error))[-_LONGEST_VALUE:]
    return event


def _render_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    return json.dumps(printable(event), ensure_ascii=False)


def _render_text(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    fields = printable(event)
    head = f"{fields.pop('timestamp', '')} {fields.pop('level', '').upper():7} {fields.pop('event', '')}"
    rest = " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in fields.items())
    return f"{head}  {rest}".rstrip()


def printable(event: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields with text keys and values that JSON can hold, secrets hidden."""
    return {
        _text(key): "(hidden)" if _SECRET.search(_text(key)) else _value(value, _DEEPEST)
        for key, value in event.items()
    }


def _value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if depth > 0 and isinstance(value, Mapping):
        return {_text(key): _value(item, depth - 1) for key, item in list(value.items())[:50]}
    if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
        return [_value(item, depth - 1) for item in list(value)[:50]]
    return _text(value)


def _text(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception as error:  # noqa: BLE001 - a __str__ of somebody else's object may do anything
        text = f"<{type(value).__name__}: {type(error).__name__} in str()>"
    text = text[:_LONGEST_VALUE]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
