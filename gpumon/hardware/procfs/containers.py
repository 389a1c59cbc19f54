"""Names and labels of containers: from the Docker and Podman API over their socket, else from their files as root.

Read-only requests with short timeouts, in a thread of its own: a runtime that hangs costs names, nothing else. A
container is asked for once; what it said stays until it is gone for a while. Nothing is asked on a scrape.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpumon.hardware.procfs.container_api import ApiSource, default_sockets
from gpumon.hardware.procfs.container_files import FileSource
from gpumon.model.process import Container

RETRY_S = (2.0, 10.0, 60.0, 300.0)  # after the first, second, ... time nobody knew the container
FORGET_S = 300.0
SWEEP_S = 30.0  # running containers with cards are listed this often
MOST_CONTAINERS = 2048
STOP_S = 3.0

Lookup = Callable[[str], "Container | None"]


class ContainerDirectory:
    """What is known of containers. `want`, `known` and `pending` never wait; `work` asks."""

    def __init__(self, sources: Sequence[ApiSource | FileSource] | None = None) -> None:
        """Args: sources: asked in order; by default the sockets that are there at the time, then the files."""
        self._sources = tuple(sources) if sources is not None else (FileSource(),)
        self._looks_for_sockets = sources is None
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._known: Mapping[str, Container] = {}
        self._listed: Mapping[str, Container] = {}  # running containers that were given cards
        self._wanted: dict[str, float] = {}  # id -> when it was last wanted
        self._failed: dict[str, tuple[int, float]] = {}  # id -> (tries, when the next is due)
        self._next_sweep_s = 0.0

    def want(self, ids: Iterable[str]) -> None:
        """Note which containers are of interest now."""
        now_s = time.monotonic()
        with self._lock:
            for container_id in ids:
                if container_id in self._wanted or len(self._wanted) < MOST_CONTAINERS:
                    self._wanted[container_id] = now_s
        if self._due(now_s):
            self._news.set()

    def known(self) -> Mapping[str, Container]:
        """Return all containers known, by full id; the same object until something changes."""
        return self._known

    def pending(self) -> frozenset[str]:
        """Return containers that have not been asked for yet; empty when nobody asks."""
        if self._thread is None:
            return frozenset()
        with self._lock:
            return frozenset(one for one in self._wanted if one not in self._known and one not in self._failed)

    def start(self) -> None:
        """Begin asking in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="gpumon-containers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; waits no longer than a request may take."""
        self._stopping = True
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def work(self, now_s: float) -> None:
        """Ask for everything that is due: one round, as the thread does it."""
        if now_s >= self._next_sweep_s:
            self._next_sweep_s = now_s + SWEEP_S
            self._find_sockets()
            self._listed = {one.container_id: one for source in reversed(self._sources) for one in source.with_cards()}
        for container_id in self._due(now_s):
            if self._stopping:
                return
            found = next((one for source in self._sources if (one := source.lookup(container_id)) is not None), None)
            with self._lock:
                if found is not None:
                    self._known = {**self._known, container_id: found}
                    self._failed.pop(container_id, None)
                else:
                    tries = self._failed.get(container_id, (0, 0.0))[0]
                    self._failed[container_id] = tries + 1, now_s + RETRY_S[min(tries, len(RETRY_S) - 1)]
        self._forget(now_s)

    def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            self.work(time.monotonic())
            self._news.wait(SWEEP_S)

    def _find_sockets(self) -> None:
        """Take up sockets that have appeared: at boot gpumon may be there before the runtime."""
        if not self._looks_for_sockets:
            return
        known = {source.path: source for source in self._sources if isinstance(source, ApiSource)}
        found = tuple(known.get(path) or ApiSource(path) for path in default_sockets())
        self._sources = (*found, FileSource())

    def _due(self, now_s: float) -> list[str]:
        with self._lock:
            return [
                one for one in self._wanted if one not in self._known and self._failed.get(one, (0, 0.0))[1] <= now_s
            ]

    def _forget(self, now_s: float) -> None:
        with self._lock:
            self._wanted = {one: last_s for one, last_s in self._wanted.items() if now_s - last_s < FORGET_S}
            self._failed = {one: tries for one, tries in self._failed.items() if one in self._wanted}
            kept = {one: known for one, known in self._known.items() if one in self._wanted and one not in self._listed}
            merged = {**kept, **self._listed}
            if merged != self._known:
                self._known = merged
