"""What the daemon remembers and is told: the history's keeper and the listener for reports, side by side.

Both are optional and neither is ever waited for. A simulated node has a history of its own. Commands that watch by
themselves read what the daemon has kept, where they may, and write nothing.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from gpumon.config import Config
from gpumon.history import HistoryError, Keeper, Store, file_in, folder_of, has_folder, known_salt, salt_in
from gpumon.model.past import NOTHING, Past
from gpumon.model.samples import Tick
from gpumon.model.settings import HistorySettings, Settings
from gpumon.model.view import NodeView
from gpumon.pipeline import State
from gpumon.sampling.reported import Listener


def remembered(config: Config, *, simulated: bool) -> tuple[Past, Settings]:
    """Return what the history of this node knows, and the settings by which its workloads are recognised.

    Nothing for who may not read it: the folder is the daemon's.
    """
    history = config.history
    if history is None or (simulated and not has_folder(history, os.environ)):
        return NOTHING, config.settings
    folder = folder_of(history, os.environ)
    salt = known_salt(folder)
    if not salt:
        return NOTHING, config.settings
    try:
        with closing(Store.open_to_read(file_in(folder, simulated=simulated))) as store:
            past = store.past()
    except (HistoryError, OSError):
        return NOTHING, config.settings
    return past, replace(config.settings, workload_salt=salt)


class Remembering:
    """Made, started and stopped by the daemon; used by its pipeline thread."""

    def __init__(self, config: Config, *, simulated: bool) -> None:
        history = config.history
        if simulated and history is not None and not has_folder(history, os.environ):
            history = None  # trying a scenario leaves nothing behind on the machine
        folder = folder_of(history or HistorySettings(), os.environ)
        self._simulated = simulated
        self._salt = salt_in(folder) if history is not None else ""
        self._keeper = None if history is None else Keeper(file_in(folder, simulated=simulated), history)
        self._listener = (
            Listener(config.report, config.settings.tenants.tenants, Path(config.procfs_root))
            if config.report.wanted
            else None
        )

    def start(self) -> None:
        """Read the history and begin to write and to listen."""
        if self._keeper is not None:
            self._keeper.start()
        if self._listener is not None:
            self._listener.start()

    def stop(self) -> None:
        """Write what is left."""
        if self._listener is not None:
            self._listener.stop()
        if self._keeper is not None:
            self._keeper.stop()

    def salted(self, settings: Settings) -> Settings:
        """Return the settings with the installation's salt."""
        return replace(settings, workload_salt=self._salt)

    @property
    def past(self) -> Past:
        """What is known from before."""
        return NOTHING if self._keeper is None else self._keeper.past

    def heard(self, tick: Tick) -> Tick:
        """Return the tick with what jobs have said since the last."""
        reports = () if self._listener is None else self._listener.take()
        return replace(tick, reports=reports) if reports else tick

    def offer(self, state: State) -> None:
        """Hand over what the tick showed: runs and rates to the history, processes whose servers may be asked."""
        if self._keeper is not None:
            # The next scenario may have fewer cards, and none of them is lost.
            known = () if state.view is None or self._simulated else state.view.cards
            cards = sum(card.tick.up for card in known)
            self._keeper.offer(state.scaling.runs, state.scaling.rates, cards)
        if self._listener is not None and state.view is not None:
            jobs = [view.job for view in state.view.jobs]
            self._listener.follow(pid for job in jobs for pid, _ in (*job.processes, *job.relatives))

    def shown(self, view: NodeView) -> NodeView:
        """Return the view with what is wrong with the history, for the operator."""
        found = () if self._keeper is None else self._keeper.findings
        return replace(view, findings=(*view.findings, *found)) if found else view
