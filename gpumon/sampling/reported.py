"""The threads that listen to what jobs say of themselves. Nothing waits for them, and they cost next to nothing.

Every source is switched on by the configuration alone. A sender is heard once a second at most; a flood is drained at
a bounded pace and fills only the kernel's own short queue.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from gpumon.hardware import reported, server_metrics
from gpumon.hardware.reported import ReportSocket, ReportSocketError
from gpumon.hardware.server_metrics import ServerCount
from gpumon.model.report import Report, ReportSource
from gpumon.model.settings import ReportSettings

HEARD_S = 1.0  # a sender is heard this often at most
FOLDER_S = 5.0
SERVERS_S = 15.0
MOST_A_SECOND = 500  # datagrams
MOST_KEPT = 256  # statements between two ticks, one for each sender
MOST_SERVERS = 16


class Listener:
    """Made, started and asked by the daemon. `take` and `follow` may be called by another thread."""

    def __init__(self, settings: ReportSettings, tenants: tuple[str, ...], procfs: Path) -> None:
        """Bind the socket. A socket that cannot be made is logged, and the other sources work."""
        self._log = structlog.get_logger()
        self._settings = settings
        self._tenants = tenants
        self._procfs = procfs
        self._lock = threading.Lock()
        self._kept: dict[tuple[ReportSource, int, str, str], Report] = {}
        self._heard_s: dict[int, float] = {}
        self._pids: tuple[int, ...] = ()
        self._counts: dict[tuple[int, int], tuple[float, ServerCount]] = {}  # by pid and port
        self._stopping = threading.Event()
        self._socket: ReportSocket | None = None
        if settings.socket:
            try:
                self._socket = ReportSocket(Path(settings.socket))
            except ReportSocketError as error:
                self._log.error("jobs cannot report through the socket", problem=str(error))
        self._threads = [threading.Thread(target=self._listen, name="reports", daemon=True)]
        if settings.servers:
            self._threads.append(threading.Thread(target=self._ask_servers, name="report-servers", daemon=True))

    def start(self) -> None:
        """Begin to listen."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop listening and take the socket away."""
        self._stopping.set()
        self._threads[0].join(2.0 * HEARD_S)
        if self._socket is not None:
            self._socket.close()

    def follow(self, pids: Iterable[int]) -> None:
        """Tell which processes are jobs': only their servers are asked."""
        self._pids = tuple(pids)

    def take(self) -> tuple[Report, ...]:
        """Return what was heard since the last call, the newest of each sender."""
        with self._lock:
            kept, self._kept = self._kept, {}
        return tuple(kept.values())

    def _keep(self, report: Report) -> None:
        key = (report.source, report.pid, report.tenant, report.container)
        with self._lock:
            if key in self._kept or len(self._kept) < MOST_KEPT:
                self._kept[key] = report

    def _listen(self) -> None:
        folder_s = 0.0
        while not self._stopping.is_set():
            self._drain()
            if self._settings.folder and time.monotonic() >= folder_s:
                folder_s = time.monotonic() + FOLDER_S
                self.read_folder()

    def _drain(self) -> None:
        """Hear what was sent, at most so much a second."""
        began_s = time.monotonic()
        if self._socket is None:
            self._stopping.wait(HEARD_S)
            return
        select.select([self._socket], [], [], HEARD_S)
        for _ in range(MOST_A_SECOND):
            report = self._socket.receive(time.monotonic())
            if report is None:
                return
            self._hear(report)
        self._stopping.wait(max(0.0, HEARD_S - (time.monotonic() - began_s)))

    def _hear(self, report: Report) -> None:
        if report.pid <= 0 or report.mono_s - self._heard_s.get(report.pid, -HEARD_S) < HEARD_S:
            return
        if len(self._heard_s) >= 2 * MOST_KEPT:
            self._heard_s = {pid: at for pid, at in self._heard_s.items() if report.mono_s - at < HEARD_S}
        self._heard_s[report.pid] = report.mono_s
        self._keep(report)

    def read_folder(self) -> None:
        """Read the files of the folder once."""
        for report in reported.read_folder(Path(self._settings.folder), self._tenants, time.monotonic(), time.time()):
            self._keep(report)

    def _ask_servers(self) -> None:
        while not self._stopping.wait(SERVERS_S):
            self.ask_servers()

    def ask_servers(self) -> None:
        """Ask the servers of the jobs' processes once."""
        counts: dict[tuple[int, int], tuple[float, ServerCount]] = {}
        for pid in self._pids:
            for port in server_metrics.listening_ports(self._procfs, pid):
                if len(counts) >= MOST_SERVERS or self._stopping.is_set():
                    break
                count = server_metrics.ask(port)
                if count is not None:
                    counts[pid, port] = (time.monotonic(), count)
        for (pid, port), (now_s, count) in counts.items():
            before = self._counts.get((pid, port))
            if before is not None:
                self._compare(pid, before, (now_s, count))
        self._counts = counts

    def _compare(self, pid: int, before: tuple[float, ServerCount], now: tuple[float, ServerCount]) -> None:
        """Keep a server's rate. Only with requests waiting at both ends: else it is as fast as it is asked to be."""
        grown = now[1].tokens - before[1].tokens
        if grown > 0.0 and before[1].waiting > 0.0 and now[1].waiting > 0.0:
            rate = grown / (now[0] - before[0])
            self._keep(reported.report({"tokens_per_second": rate}, ReportSource.SERVER, now[0], pid=pid))
