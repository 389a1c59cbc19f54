"""What scrapes cost and how long they take, alone and under attack.

    python -m benchmarks.scrape [--seconds 10]

The server runs in its own process and publishes a node of 8 server cards with 5 jobs (1,000 series) once a second. A
client process asks on ten connections at the same instant, twenty times a second. Then the same while 100 silent
connections, 50 clients that send a byte at a time, 20 that never read their answers and 1 GB requests are held
against the server. Prints CPU of rendering a tick, latencies, and the server's memory. Needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import selectors
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import psutil
import structlog

from gpumon.export.answer import Site
from gpumon.export.publish import Published, Publisher
from gpumon.export.server import Server
from tests import views

SCRAPERS = 10
ROUNDS_A_SECOND = 20
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: node\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n"
REQUEST_GZIP = REQUEST[:-2] + b"Accept-Encoding: gzip\r\n\r\n"


def serve(pipe: Connection) -> None:
    """Serve a fresh tick every second until told to stop; send the port, then the mean CPU seconds of a tick."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    sys.setswitchinterval(0.0005)  # as the daemon does
    view = views.sxm(5)
    publisher = Publisher(max_jobs=256)
    newest: list[Published] = [publisher.publish(view, {})]
    newest[0].mono_s = time.monotonic()
    server = Server("127.0.0.1:0", current=lambda: newest[0], mono_s=time.monotonic, site=Site())
    pipe.send((server.start(), newest[0].pages.text.count(b"\ngpumon_")))
    costs = []
    while not pipe.poll(1.0):
        started = time.thread_time()
        made = publisher.publish(view, {})
        costs.append(time.thread_time() - started)
        made.mono_s = time.monotonic()
        newest[0] = made
    server.stop()
    pipe.send(statistics.mean(costs))


def read_answer(sock: socket.socket) -> int:
    """Read one answer; return the length of its body."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _some(sock)
    head, body = got.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    left = length - len(body)
    while left > 0:
        left -= len(_some(sock))
    return length


def _some(sock: socket.socket) -> bytes:
    received = sock.recv(262_144)
    if not received:
        raise ConnectionError("the server closed the connection")
    return received


def latencies(port: int, request: bytes, seconds: float) -> list[float]:
    """Return the time to the complete answer of every scrape, all scrapers asking at the same instant."""
    found = []
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        scrapers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(SCRAPERS)]
        for sock in scrapers:
            selector.register(sock, selectors.EVENT_READ)
        for number in range(int(seconds * ROUNDS_A_SECOND)):
            started = time.perf_counter()
            for sock in scrapers:
                sock.sendall(request)
            waiting = set(scrapers)
            while waiting:
                for key, _ in selector.select():
                    if key.fileobj in waiting and isinstance(key.fileobj, socket.socket):
                        read_answer(key.fileobj)
                        found.append(time.perf_counter() - started)
                        waiting.remove(key.fileobj)
            # Not in step with the tick: rounds fall before, during and after rendering.
            time.sleep(max(0.0, 1.0 / ROUNDS_A_SECOND + 0.003 * (number % 7) - (time.perf_counter() - started)))
    return found


def attack(port: int, stop: Event) -> None:
    """Hold silent, slow and half-open connections, and push 1 GB requests, until told to stop."""
    slow, held = [], []
    for _ in range(100):
        held.append(socket.create_connection(("127.0.0.1", port)))
    for _ in range(50):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        slow.append(sock)
    for _ in range(20):  # asked, and never read the answer
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(REQUEST * 50)
        held.append(sock)
    chunk = bytes(1 << 20)
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n")
            for _ in range(1024):
                sock.sendall(chunk)
        for sock in slow:
            with contextlib.suppress(OSError):
                sock.sendall(b"x")
        stop.wait(0.5)
    for sock in held + slow:
        sock.close()


@dataclass(frozen=True, slots=True)
class Result:
    """Latencies in seconds, memory in bytes."""

    series: int
    alone: list[float]
    alone_gzip: list[float]
    attacked: list[float]
    memory_before: int
    memory_attacked: int
    threads_before: int
    threads_after: int
    render_cpu_seconds: float


def measure(seconds: float) -> Result:
    """Run all three rounds, each for so many seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    serving = context.Process(target=serve, args=(there,))
    serving.start()
    port, series = here.recv()
    server = psutil.Process(serving.pid)
    threads_before = server.num_threads()
    alone = latencies(port, REQUEST, seconds)
    alone_gzip = latencies(port, REQUEST_GZIP, seconds)
    memory_before = server.memory_info().rss
    stop = context.Event()
    attacker = context.Process(target=attack, args=(port, stop))
    attacker.start()
    time.sleep(1.0)
    attacked = latencies(port, REQUEST, seconds)
    memory_attacked = server.memory_info().rss
    stop.set()
    attacker.join()
    time.sleep(0.5)
    threads_after = server.num_threads()
    here.send(None)
    result = Result(
        series=series,
        alone=alone,
        alone_gzip=alone_gzip,
        attacked=attacked,
        memory_before=memory_before,
        memory_attacked=memory_attacked,
        threads_before=threads_before,
        threads_after=threads_after,
        render_cpu_seconds=here.recv(),
    )
    serving.join()
    return result


def quantile(found: list[float], q: float) -> float:
    """Return the q-quantile, q from 0 to below 1."""
    return sorted(found)[int(len(found) * q)]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    result = measure(parser.parse_args().seconds)
    print(f"{result.series} series; rendering a tick: {result.render_cpu_seconds * 1e3:.2f} ms of CPU")
    for title, found in (
        ("alone", result.alone),
        ("alone, gzip", result.alone_gzip),
        ("under attack", result.attacked),
    ):
        p50, p99 = (quantile(found, q) * 1e3 for q in (0.5, 0.99))
        print(f"{title}: {len(found)} scrapes, p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {max(found) * 1e3:.2f} ms")
    grown = (result.memory_attacked - result.memory_before) / 2**20
    print(f"memory: {result.memory_before / 2**20:.1f} MiB, {grown:+.1f} MiB under attack")
    print(f"threads: {result.threads_before} at the start, {result.threads_after} after the attack")


if __name__ == "__main__":
    main()
