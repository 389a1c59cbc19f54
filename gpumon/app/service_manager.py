"""Tell the service manager what goes on: ready, reloading, stopping, and that the pipeline still moves.

The protocol is sd_notify(3): datagrams to the socket named by NOTIFY_SOCKET. Ten lines of our own, since the
libraries are stale. Without the variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time


def notify(*lines: str) -> None:
    """Send state lines like READY=1. Failures are ignored: a missing manager must not stop the daemon."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # abstract namespace
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto("\n".join(lines).encode(), address)


def reloading() -> None:
    """Announce a reload, as Type=notify-reload wants it: with the monotonic time of its start."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
