"""A notifier on counted time, with targets that only remember what they got."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpumon.model.view import NodeView
from gpumon.notify.courier import Courier
from gpumon.notify.message import Message
from gpumon.notify.notifier import Notifier
from gpumon.notify.outbox import FILE
from gpumon.notify.target import OPERATOR, Secret, Target
from tests import views
from tests.notify.nodes import at

HERE = Secret(file="/nowhere")
ACME = Target("acme-1", "acme", "webhook", HERE, most_per_hour=600)
ZETA = Target("zeta-2", "zeta", "webhook", HERE, language="zh", most_per_hour=600)
OPERATIONS = Target("@operator-3", OPERATOR, "webhook", HERE, most_per_hour=600)
EVERY = (ACME, ZETA, OPERATIONS)
TICK_S = 5.0


class Watch:
    """Runs a notifier over minutes in milliseconds."""

    def __init__(self, folder: Path | None, targets: tuple[Target, ...] = EVERY, repeat_s: float = 86_400.0) -> None:
        self.seconds = 0.0
        self.got: list[tuple[str, Message]] = []
        self.problem = ""  # what the service says instead of taking a message
        self.courier = Courier(
            None if folder is None else folder / FILE,
            wall=lambda: views.WALL_S + self.seconds,
            channels={"webhook": self._send},
        )
        self.notifier = Notifier(targets, repeat_s, self.courier)

    def _send(self, target: Target, message: Message) -> str:
        if not self.problem:
            self.got.append((target.owner, message))
        return self.problem

    def run(self, minutes: float, view: NodeView, change: Callable[[NodeView], NodeView] | None = None) -> None:
        """Let time pass over a node in one state, sending what is due."""
        shown = view if change is None else change(view)
        for _ in range(round(minutes * 60 / TICK_S)):
            self.tick(at(shown, self.seconds + TICK_S))

    def tick(self, view: NodeView) -> None:
        """Take one state of a node, at its own time, and send what is due."""
        self.seconds = view.wall_s - views.WALL_S
        self.notifier.observe(view)
        while self.courier.send_next():
            pass

    def told(self) -> list[tuple[str, str]]:
        """Return (owner, status) of every message so far."""
        return [(owner, message.status) for owner, message in self.got]
