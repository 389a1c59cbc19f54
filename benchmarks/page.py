"""What the live page costs: CPU of the daemon's output side with 0, 1 and 50 viewers, and what scrapes feel of them.

    python -m benchmarks.page [--seconds 20]

The server runs in its own process with 16 cards and 20 jobs and publishes a tick a second. A viewer asks for the state
every two seconds and for the last 15 minutes every thirty, compressed, on a kept connection, as the page does. Ten
scrapers ask at the same instant, once a second. Needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import random
import socket
import sys
import time
from multiprocessing.connection import Connection

import psutil
import structlog

from benchmarks.scrape import REQUEST, latencies, quantile, read_answer
from gpumon.export.answer import Site
from gpumon.export.publish import Published, Publisher
from gpumon.export.server import Server
from gpumon.ui import page, state_json
from gpumon.ui.history_ring import POINTS, HistoryRing
from tests import views
from tests.ui.serving import later

VIEWERS = 50
STATE_S = 2.0
RECENT_S = 30.0


def serve(pipe: Connection) -> None:
    """Serve a fresh tick every second until told to stop; send the port."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    sys.setswitchinterval(0.0005)  # as the daemon does
    view = views.crowded()
    publisher, ring = Publisher(max_jobs=256), HistoryRing()
    for step in range(POINTS):
        ring.append(later(view, 10.0 * step))
    newest: list[Published] = []

    def publish() -> None:
        made = publisher.publish(view, {})
        made.mono_s = time.monotonic()
        newest[:] = [made]

    publish()
    site = Site(
        fixed={"/": page.document()},
        live={"/api/v1/state": state_json.document, "/api/v1/recent": ring.document},
    )
    server = Server("127.0.0.1:0", lambda: newest[0], time.monotonic, site=site)
    pipe.send(server.start())
    while not pipe.poll(1.0):
        publish()
    server.stop()


def view_page(port: int, viewers: int, seconds: float) -> None:
    """Ask as so many viewers do, spread evenly over each period."""
    rng = random.Random(1)
    asked = []  # (when, viewer, path)
    for viewer in range(viewers):
        for path, period_s in (("state", STATE_S), ("recent", RECENT_S)):
            start_s = rng.uniform(0.0, period_s)
            asked += [(start_s + n * period_s, viewer, path) for n in range(int((seconds - start_s) / period_s) + 1)]
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        tabs = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(viewers)]
        for when_s, viewer, path in sorted(asked):
            time.sleep(max(0.0, started + when_s - time.monotonic()))
            tabs[viewer].sendall(f"GET /api/v1/{path} HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            read_answer(tabs[viewer])
        time.sleep(max(0.0, started + seconds - time.monotonic()))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    serving = context.Process(target=serve, args=(there,))
    serving.start()
    port = here.recv()
    server = psutil.Process(serving.pid)
    idle_ratio = 0.0
    for viewers in (0, 1, VIEWERS):
        before = sum(server.cpu_times()[:2])
        view_page(port, viewers, seconds)
        ratio = (sum(server.cpu_times()[:2]) - before) / seconds
        idle_ratio = ratio if viewers == 0 else idle_ratio
        more = f", {100 * (ratio - idle_ratio):+.2f} % for the page" if viewers else " for rendering ticks"
        print(f"{viewers} viewers: {100 * ratio:.2f} % of a core{more}")
    crowd = context.Process(target=view_page, args=(port, VIEWERS, seconds))
    alone = latencies(port, REQUEST, seconds / 2)
    crowd.start()
    found = latencies(port, REQUEST, seconds / 2)
    crowd.join()
    here.send(None)
    serving.join()
    without_ms, with_ms = (quantile(times, 0.99) * 1e3 for times in (alone, found))
    print(f"scrape p99: {without_ms:.2f} ms without, {with_ms:.2f} ms with {VIEWERS} viewers")


if __name__ == "__main__":
    main()
