"""Waiting for a call that may never come back: a sick card can hold a call inside the driver for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from gpumon.model.fault import Fault

_Answer = TypeVar("_Answer")


def within(seconds: float, call: Callable[[], _Answer]) -> _Answer | Fault:
    """Return the call's answer, TIMEOUT when it has not come back in time.

    The thread of a call that hangs cannot be ended; it is a daemon, so that it does not keep the doctor from ending.
    Raises: what the call raised.
    """
    answers: list[_Answer] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread below
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    return answers[0] if answers else Fault.TIMEOUT
