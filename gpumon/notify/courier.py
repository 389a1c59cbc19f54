"""Carries messages: a queue that outlives the process, a thread that sends, and counts of how it went.

Whoever queues never waits: writing the memory and talking to services are the thread's.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from gpumon.model.errors import GpumonError
from gpumon.notify import delivery, outbox
from gpumon.notify.channels import CHANNELS, Send
from gpumon.notify.message import Message
from gpumon.notify.outbox import Kept, Waiting
from gpumon.notify.target import Target

RESULTS = ("sent", "failed", "dropped")
_POLL_S = 1.0


class Courier:
    """One queue with its thread. All methods may be called by any thread."""

    def __init__(
        self,
        file: Path | None,
        *,
        wall: Callable[[], float] = time.time,
        channels: Mapping[str, Send] = CHANNELS,
    ) -> None:
        """Take up what an earlier run left behind.

        Args:
            file: the memory; None, or one that cannot be written: the courier works without one.
        """
        self._log = structlog.get_logger()
        self._file = file
        self._channels = channels
        self.wall = wall
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._changed = False
        self._unsaved = ""
        self._targets: Mapping[str, Target] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._problems: dict[str, str] = {}  # last problem by target, so that a lasting one is logged once
        self._kept = Kept()
        try:
            self._kept = outbox.load(file) if file is not None else Kept()
        except GpumonError as error:
            self._log.warning("notifications have no memory", problem=str(error))
        self._delivery = delivery.Delivery(waiting=self._kept.waiting)

    @property
    def memory(self) -> Kept:
        """What was remembered beside the queue."""
        return self._kept

    def configure(self, targets: tuple[Target, ...]) -> None:
        """Take new targets from the next message on."""
        with self._lock:
            self._targets = {target.name: target for target in targets}
            for kind in {target.kind for target in targets}:
                for result in RESULTS:
                    self._counts[kind, result] += 0  # a counter that starts at its first failure shows no increase

    def counts(self) -> dict[tuple[str, str], int]:
        """Return messages so far by (channel, result)."""
        with self._lock:
            return dict(self._counts)

    def queue(self, messages: Iterable[Waiting], memory: Kept) -> None:
        """Queue messages, and remember what else shall outlive the process with them."""
        with self._lock:
            self._delivery = delivery.enqueue(self._delivery, messages)
            self._kept = memory
            self._changed = True
        self._wake.set()

    def withdraw(self, keys: frozenset[str]) -> frozenset[str]:
        """Take back messages never tried whose alerts are all over; return the targets that need not hear it."""
        with self._lock:
            self._delivery, targets = delivery.withdraw(self._delivery, keys)
            return targets

    def start(self) -> None:
        """Start sending."""
        threading.Thread(target=self._run, name="notify", daemon=True).start()

    def stop(self) -> None:
        """Stop sending; what waits is kept for the next start."""
        self._stopping = True
        self._wake.set()
        self._save()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(_POLL_S)
            self._wake.clear()
            while not self._stopping and self.send_next():
                pass

    def send_next(self) -> bool:
        """Send the next message that may go now; return whether there was one."""
        with self._lock:
            now_s = self.wall()
            self._delivery = delivery.expired(self._delivery, self._targets, now_s)
            self._count_dropped()
            one = delivery.due(self._delivery, self._targets, now_s)
            if one is not None:
                target = self._targets[one.target]
                self._delivery, one = delivery.started(self._delivery, one, now_s)
                self._changed = True
        self._save()
        if one is None:
            return False
        problem = self._send(target, one.message)
        with self._lock:
            if not problem:
                self._delivery = delivery.succeeded(self._delivery, one, self.wall())
            self._counts[target.kind, "failed" if problem else "sent"] += 1
            self._changed = True
        self._tell(target, problem)
        self._save()
        return True

    def _send(self, target: Target, message: Message) -> str:
        try:
            return self._channels[target.kind](target, message)
        except GpumonError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - edge: a library's fault must not end the sending of others' messages
            return f"fault in channel {target.kind}: {type(error).__name__}"

    def _tell(self, target: Target, problem: str) -> None:
        if problem == self._problems.get(target.name, ""):
            return
        self._problems[target.name] = problem
        if problem:
            self._log.warning("message not delivered", target=target.name, kind=target.kind, problem=problem)
        else:
            self._log.info("messages are delivered again", target=target.name, kind=target.kind)

    def _count_dropped(self) -> None:
        for channel in self._delivery.dropped:
            self._counts[channel, "dropped"] += 1
            self._changed = True
        self._delivery = replace(self._delivery, dropped=())

    def _save(self) -> None:
        with self._lock:
            if self._file is None or not self._changed:
                return
            self._changed = False
            kept = replace(self._kept, waiting=self._delivery.waiting)
        try:
            outbox.save(self._file, kept)
        except OSError as error:
            problem = str(error)
        else:
            problem = ""
        if problem and problem != self._unsaved:
            self._log.warning("notifications cannot be remembered", problem=problem)
        self._unsaved = problem
