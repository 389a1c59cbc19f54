"""The embedded notifications: a tick in, messages to the right owners out.

`observe` runs in the tick's thread and only judges and queues, which takes well under a millisecond; the courier sends.
What was told lies in one file with what waits, so that a restart neither repeats nor loses a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpumon.model.view import NodeView
from gpumon.notify.condition import Condition
from gpumon.notify.courier import Courier
from gpumon.notify.holding import Holding, observe, restored
from gpumon.notify.job_conditions import job_conditions
from gpumon.notify.message import compose
from gpumon.notify.muting import CARD_ALERTS, is_muted
from gpumon.notify.node_conditions import node_conditions
from gpumon.notify.outbox import Kept, Told, Waiting
from gpumon.notify.target import Target, targets_of

GROUP_WAIT_S = 30.0  # alerts of one job that begin together are one message
_LOST = "GpumonGpuLost"
LONGEST_SPAN_S = 10.0  # a longer gap between ticks is time in which nothing was seen


class Notifier:
    """Tells owners what begins and ends. Belongs to the tick's thread."""

    def __init__(self, targets: tuple[Target, ...], repeat_s: float, courier: Courier) -> None:
        """Take up what an earlier run has told.

        Args:
            repeat_s: time after which an alert that still holds is told again.
        """
        self._courier = courier
        self._due_s: dict[tuple[str, tuple[str, str, str]], float] = {}  # (status, group) -> monotonic
        self._over: list[Condition] = []
        # Alerts that came with the loss of a card: told with it, and not once more when the card is back.
        self._spared: frozenset[str] = frozenset()
        self._last_s: float | None = None
        told = courier.memory.told
        self._told: dict[str, Told] = {each.condition.key: each for each in told}
        self._holding: Holding = restored(each.condition for each in told)
        self.configure(targets, repeat_s)

    def configure(self, targets: tuple[Target, ...], repeat_s: float) -> None:
        """Take new targets from the next message on."""
        self._targets = targets
        self._repeat_s = repeat_s
        self._courier.configure(targets)

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
        self._over += [condition for condition in change.ended if condition.key in self._told]
        told = self._told
        messages = [*self._messages_over(view), *self._messages_firing(view)]
        if messages or self._told is not told:
            self._courier.queue(messages, Kept(told=tuple(self._told.values())))

    def _messages_firing(self, view: NodeView) -> list[Waiting]:
        now_s = self._courier.wall()
        messages = []
        for group in self._groups("firing", self._untold(), view.mono_s):
            messages += self._messages("firing", group, view, frozenset())
            self._told = {**self._told, **{condition.key: Told(condition, now_s) for condition in group}}
        return messages

    def _untold(self) -> list[Condition]:
        """Return what must be told now: it lasts, nothing that holds is its reason, and its owner does not know."""
        self._spare()
        candidates = [
            held.condition
            for key, held in self._holding.items()
            if held.lasts and key not in self._spared and self._is_due(held.condition)
        ]
        if not candidates:
            return []
        # A card that does not answer is not sure to be lost yet, but what else is wrong with it can wait until it is.
        holds = [held.condition for held in self._holding.values() if held.firing or held.condition.alert == _LOST]
        return [condition for condition in candidates if not is_muted(condition, holds)]

    def _spare(self) -> None:
        """Remember what came with the loss of a card, for as long as it lasts."""
        lost = {held.condition.uuid for held in self._holding.values() if held.firing and held.condition.alert == _LOST}
        self._spared = frozenset(
            key
            for key, held in self._holding.items()
            if held.firing
            and (key in self._spared or (held.condition.uuid in lost and held.condition.alert in CARD_ALERTS))
        )

    def _is_due(self, condition: Condition) -> bool:
        told = self._told.get(condition.key)
        return told is None or self._courier.wall() - told.last_s >= self._repeat_s

    def _messages_over(self, view: NodeView) -> list[Waiting]:
        messages = []
        for group in self._groups("resolved", self._over, view.mono_s):
            keys = _keys(group)
            self._over = [condition for condition in self._over if condition.key not in keys]
            self._told = {key: told for key, told in self._told.items() if key not in keys}
            messages += self._messages("resolved", group, view, self._courier.withdraw(keys))
        return messages

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

    def _messages(
        self, status: str, group: Sequence[Condition], view: NodeView, spared: frozenset[str]
    ) -> list[Waiting]:
        keys = tuple(condition.key for condition in group)
        return [
            Waiting(
                target.name,
                target.kind,
                compose(status, group, view, target.language),
                keys,
                self._courier.wall(),
            )
            for target in targets_of(self._targets, group[0].audience, group[0].tenant)
            if target.name not in spared
        ]


def _keys(conditions: Iterable[Condition]) -> frozenset[str]:
    return frozenset(condition.key for condition in conditions)
