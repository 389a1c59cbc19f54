"""Tokens that a job's own inference server has generated, from its metrics page on this machine's loopback.

Only a port that a process of the job itself listens on is asked, and only where that process lives in the network
namespace of gpumon: the loopback of a container is not this one. Whose socket it is stands in `/proc/PID/fd`, which
takes the privileges of `attribution.conf` for other users' processes; without them no server is asked.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

ANSWER_S = 1.0
MOST_BYTES = 2 << 20  # of a page; a vLLM server's is 100 KiB
MOST_PORTS = 4  # of one process
MOST_SOCKETS = 4096
_LISTENING = "0A"
# The counters of generated tokens, and how many requests wait: without a queue a server is only as fast as it is asked.
_TOKENS = ("vllm:generation_tokens_total", "sglang:generation_tokens_total", "tgi_request_generated_tokens_sum")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size")
_SAMPLE = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}\n]*\})?[ \t]+([0-9.eE+-]{1,32})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerCount:
    """What a server has generated so far, tokens, and how many requests wait."""

    tokens: float
    waiting: float


def parse(page: bytes) -> ServerCount | None:
    """Return the counts of a metrics page, summed over its labels; None for a page of no known server."""
    sums: dict[str, float] = {}
    for name, number in _SAMPLE.findall(page):
        text = name.decode("ascii")
        if text in _TOKENS or text in _WAITING:
            try:
                sums[text] = sums.get(text, 0.0) + float(number)
            except ValueError:
                return None
    tokens = next((sums[name] for name in _TOKENS if name in sums), math.nan)
    waiting = next((sums[name] for name in _WAITING if name in sums), 0.0)
    return None if math.isnan(tokens) else ServerCount(tokens, waiting)


def listening_ports(procfs: Path, pid: int) -> tuple[int, ...]:
    """Return the TCP ports that a process listens on and that loopback reaches; () where that cannot be read."""
    try:
        if (procfs / str(pid) / "ns" / "net").readlink() != (procfs / "self" / "ns" / "net").readlink():
            return ()
        own = _sockets(procfs / str(pid) / "fd")
    except OSError:
        return ()
    if not own:
        return ()
    ports = set()
    for table, loopback in (("tcp", ("00000000", "0100007F")), ("tcp6", ("0" * 32,))):
        try:
            with (procfs / str(pid) / "net" / table).open("r", encoding="ascii", errors="replace") as stream:
                next(stream, "")
                for line in stream:
                    cells = line.split()
                    if len(cells) > 9 and cells[3] == _LISTENING and cells[9] in own:
                        address, _, port = cells[1].partition(":")
                        if address in loopback:
                            ports.add(int(port, 16))
        except (OSError, ValueError):
            continue
    return tuple(sorted(ports)[:MOST_PORTS])


def _sockets(folder: Path) -> frozenset[str]:
    """Return the inodes of a process's sockets."""
    found = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                target = str(Path(entry.path).readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
            if len(found) >= MOST_SOCKETS:
                break
    return frozenset(found)


def ask(port: int) -> ServerCount | None:
    """Return the counts of the server on a loopback port; None where there is none, or it is too slow or too long."""
    from gpumon.hardware.http_get import over_loopback  # noqa: PLC0415 - 3 MiB that a node without such a server keeps

    page = over_loopback(port, "/metrics", timeout_s=ANSWER_S, most_bytes=MOST_BYTES)
    return None if page is None else parse(page)
