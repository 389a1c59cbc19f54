"""The embedded notifications as the daemon uses them: none without a target, and no trace of a simulated node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.config import Config
from gpumon.model.view import NodeView
from gpumon.notify.outbox import FILE
from gpumon.notify.target import NotifySettings

if TYPE_CHECKING:
    from gpumon.notify.notifier import Notifier

STATE_FOLDER = "/var/lib/gpumon"


class Telling:
    """Made, started and stopped by the daemon; fed by its pipeline thread."""

    def __init__(self, config: Config, *, simulated: bool) -> None:
        settings = config.notify
        self._notifier: Notifier | None = None
        if settings.targets:
            from gpumon.notify.courier import Courier
            from gpumon.notify.notifier import Notifier

            self._courier = Courier(memory_file(settings, FILE, simulated=simulated))
            self._notifier = Notifier(settings.targets, settings.repeat_s, self._courier)

    def start(self) -> None:
        """Begin to send."""
        if self._notifier is not None:
            self._courier.start()

    def stop(self) -> None:
        """Keep what waits for the next start."""
        if self._notifier is not None:
            self._courier.stop()

    def configure(self, config: Config) -> None:
        """Take the targets of a reread configuration; the first target of all needs a restart."""
        if self._notifier is not None:
            self._notifier.configure(config.notify.targets, config.notify.repeat_s)

    def observe(self, view: NodeView) -> None:
        """Take one tick."""
        if self._notifier is not None:
            self._notifier.observe(view)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return messages so far by (channel, result)."""
        return {} if self._notifier is None else self._courier.counts()


def memory_file(settings: NotifySettings, name: str, *, simulated: bool = False) -> Path | None:
    """Return where the notifications' memory lies; None for a simulated node whose place nobody has said."""
    given = settings.folder or os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return None if simulated and not given else Path(given or STATE_FOLDER) / name
