"""The embedded notifications at work: a tick in, messages out through a thread of their own.

The tick's thread judges and queues, which takes well under a millisecond; sending may take as long as it likes. What
was told and what waits lies in one file, so that a restart neither repeats nor loses a message.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from gpumon.model.errors import GpumonError
from gpumon.model.view import NodeView
from gpumon.notify import delivery, outbox
from gpumon.notify.channels import CHANNELS, Send
from gpumon.notify.condition import Condition
from gpumon.notify.holding import Holding, observe, restored
from gpumon.notify.job_conditions import job_conditions
from gpumon.notify.message import Message, compose
from gpumon.notify.muting import reasons_for
from gpumon.notify.node_conditions import node_conditions
from gpumon.notify.outbox import Kept, Told, Waiting
from gpumon.notify.target import Target, targets_of

GROUP_WAIT_S = 30.0  # alerts of one job that begin together are one message
LONGEST_SPAN_S = 10.0  # a longer gap between ticks is time in which nothing was seen
_POLL_S = 1.0
RESULTS = ("sent", "failed", "dropped")


class Notifier:
    """Tells owners what begins and ends. `observe` belongs to the tick's thread; the rest may be called by any."""

    def __init__(
        self,
        targets: tuple[Target, ...],
        folder: Path | None,
        repeat_s: float,
        *,
        wall: Callable[[], float] = time.time,
        channels: Mapping[str, Send] = CHANNELS,
    ) -> None:
        """Take up what an earlier run left behind.

        Args:
            folder: where the memory lies; None, or one that cannot be written: notifications work without one.
            repeat_s: time after which an alert that still holds is told again.
        """
        self._log = structlog.get_logger()
        self._folder = folder
        self._wall = wall
        self._channels = channels
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._unsaved = ""
        self._counts: Counter[tuple[str, str]] = Counter()
        self._problems: dict[str, str] = {}  # last problem by target, so that a lasting one is logged once
        self._due_s: dict[tuple[str, tuple[str, str, str]], float] = {}  # (status, group) -> monotonic
        self._over: list[Condition] = []
        # Alerts that came with the loss of a card: told with it, and not once more when the card is back.
        self._spared: frozenset[str] = frozenset()
        self._last_s: float | None = None
        try:
            kept = outbox.load(folder) if folder is not None else Kept()
        except GpumonError as error:
            self._log.warning("notifications have no memory", problem=str(error))
            kept = Kept()
        self._told: dict[str, Told] = {told.condition.key: told for told in kept.told}
        self._holding: Holding = restored(told.condition for told in kept.told)
        self._delivery = delivery.Delivery(waiting=kept.waiting)
        self.configure(targets, repeat_s)

    def configure(self, targets: tuple[Target, ...], repeat_s: float) -> None:
        """Take new targets from the next message on."""
        with self._lock:
            self._targets = targets
            self._by_name = {target.name: target for target in targets}
            self._repeat_s = repeat_s
            for kind in {target.kind for target in targets}:
                for result in RESULTS:
                    self._counts[kind, result] += 0  # a counter that starts at its first failure shows no increase

    def counts(self) -> dict[tuple[str, str], int]:
        """Return messages so far by (channel, result)."""
        with self._lock:
            return dict(self._counts)

    def observe(self, view: NodeView) -> None:
        """Take one tick: queue what has begun for long enough, what is over, and what is due again."""
        span_s = min(view.mono_s - self._last_s, LONGEST_SPAN_S) if self._last_s is not None else 0.0
        self._last_s = view.mono_s
        conditions = [*node_conditions(view), *(job_conditions(view) if view.nvml_up else ())]
        # Without the driver nothing is known of jobs and cards: they neither begin nor end.
        unseen = {} if view.nvml_up else {k: v for k, v in self._holding.items() if k not in _keys(conditions)}
        seen = {key: held for key, held in self._holding.items() if key not in unseen}
        holding, change = observe(seen, conditions, span_s)
        self._holding = {**holding, **unseen}
        with self._lock:
            self._over += [condition for condition in change.ended if condition.key in self._told]
            queued = self._queue_over(view) + self._queue_firing(view)
        if queued:
            self._save()
            self._wake.set()

    def _queue_firing(self, view: NodeView) -> int:
        firing = [held.condition for held in self._holding.values() if held.firing]
        # A card that does not answer is not sure to be lost yet, but what else is wrong with it can wait until it is.
        reasons = firing + [
            held.condition for held in self._holding.values() if held.condition.alert == "GpumonGpuLost"
        ]
        self._spared &= _keys(firing)
        untold = []
        for held in self._holding.values():
            found = reasons_for(held.condition, reasons) if held.firing else []
            if any(reason.alert == "GpumonGpuLost" and reason in firing for reason in found):
                self._spared |= {held.condition.key}
            if held.lasts and not found and held.condition.key not in self._spared and self._is_due(held.condition):
                untold.append(held.condition)
        queued = 0
        for group in self._groups("firing", untold, view.mono_s):
            self._enqueue("firing", group, view, frozenset())
            self._told |= {condition.key: Told(condition, self._wall()) for condition in group}
            queued += 1
        return queued

    def _is_due(self, condition: Condition) -> bool:
        told = self._told.get(condition.key)
        return told is None or self._wall() - told.last_s >= self._repeat_s

    def _queue_over(self, view: NodeView) -> int:
        queued = 0
        for group in self._groups("resolved", self._over, view.mono_s):
            keys = _keys(group)
            self._over = [condition for condition in self._over if condition.key not in keys]
            for key in keys:
                self._told.pop(key, None)
            self._delivery, never_told = delivery.withdraw(self._delivery, keys)
            self._enqueue("resolved", group, view, never_told)
            queued += 1
        return queued

    def _groups(self, status: str, conditions: Iterable[Condition], mono_s: float) -> list[list[Condition]]:
        """Return the groups whose waiting time is over."""
        groups: dict[tuple[str, str, str], list[Condition]] = {}
        for condition in conditions:
            groups.setdefault(condition.group, []).append(condition)
        for known in [key for key in self._due_s if key[0] == status and key[1] not in groups]:
            del self._due_s[known]
        ready = []
        for name, group in groups.items():
            if mono_s >= self._due_s.setdefault((status, name), mono_s + GROUP_WAIT_S):
                del self._due_s[status, name]
                ready.append(group)
        return ready

    def _enqueue(self, status: str, group: Sequence[Condition], view: NodeView, spared: frozenset[str]) -> None:
        keys = tuple(condition.key for condition in group)
        now_s = self._wall()
        self._delivery = delivery.enqueue(
            self._delivery,
            [
                Waiting(target.name, target.kind, compose(status, group, view, target.language), keys, now_s)
                for target in targets_of(self._targets, group[0].audience, group[0].tenant)
                if target.name not in spared
            ],
        )

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
            now_s = self._wall()
            self._delivery = delivery.expired(self._delivery, self._by_name, now_s)
            self._count_dropped()
            one = delivery.due(self._delivery, self._by_name, now_s)
            if one is None:
                return False
            target = self._by_name[one.target]
            self._delivery, one = delivery.started(self._delivery, one, now_s)
        problem = self._send(target, one.message)
        with self._lock:
            if not problem:
                self._delivery = delivery.succeeded(self._delivery, one, self._wall())
            self._counts[target.kind, "failed" if problem else "sent"] += 1
        if problem != self._problems.get(target.name, ""):
            self._problems[target.name] = problem
            if problem:
                self._log.warning("message not delivered", target=target.name, kind=target.kind, problem=problem)
            else:
                self._log.info("messages are delivered again", target=target.name, kind=target.kind)
        self._save()
        return True

    def _send(self, target: Target, message: Message) -> str:
        try:
            return self._channels[target.kind](target, message)
        except GpumonError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - edge: a library's fault must not end the sending of others' messages
            return f"fault in channel {target.kind}: {type(error).__name__}"

    def _count_dropped(self) -> None:
        for channel in self._delivery.dropped:
            self._counts[channel, "dropped"] += 1
        self._delivery = replace(self._delivery, dropped=())

    def _save(self) -> None:
        if self._folder is None:
            return
        with self._lock:
            kept = Kept(told=tuple(self._told.values()), waiting=self._delivery.waiting)
            try:
                outbox.save(self._folder, kept)
            except OSError as error:
                problem = str(error)
            else:
                problem = ""
        if problem and problem != self._unsaved:
            self._log.warning("notifications cannot be remembered", folder=str(self._folder), problem=problem)
        self._unsaved = problem


def _keys(conditions: Iterable[Condition]) -> frozenset[str]:
    return frozenset(condition.key for condition in conditions)
