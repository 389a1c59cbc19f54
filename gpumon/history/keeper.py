"""The thread that keeps the history: what the pipeline offers is written, what is known is handed back.

The pipeline never waits for the disk. Where the file cannot be written gpumon goes on with what it has read, says so
by a finding, and tries again once a minute; what could not be written meanwhile is written then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from gpumon.history.store import RUNS_OF_A_WORKLOAD, HistoryError, Key, Store
from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.model.past import LEAST_WATCHED_S, NOTHING, Past, Run, SetRate
from gpumon.model.settings import HistorySettings
from gpumon.model.verdict import Finding

WRITE_S = 30.0
AGAIN_S = 60.0
CARDS_S = 3600.0  # between two notes that as many cards still answer
TIDY_S = 3600.0
STOP_S = 5.0
READ_ONLY = "history_read_only"

Beginning = tuple[str, tuple[str, ...], float]  # of a run
Rates = Mapping[tuple[tuple[str, ...], str], SetRate]


class Keeper:
    """Made and started by the daemon. `past` and `findings` may be read by any thread at any time."""

    def __init__(self, path: Path, settings: HistorySettings) -> None:
        self._log = structlog.get_logger()
        self._path = path
        self._settings = settings
        self._offered: tuple[Sequence[Run], Rates, int] = ((), {}, 0)
        self._written: dict[Key, Run] = {}
        self._written_rates: dict[tuple[tuple[str, ...], str], SetRate] = {}
        self._store: Store | None = None
        self._problem = ""
        self._version = -1  # of the file as others have written it
        self._open_again_s = 0.0
        self._tidy_again_s = 0.0
        self._cards = 0  # as last noted, and when to note the same again
        self._cards_again_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self.past: Past = NOTHING
        self.findings: tuple[Finding, ...] = ()

    def start(self) -> None:
        """Begin to read and to write."""
        self._thread.start()

    def offer(self, runs: Sequence[Run], rates: Rates, cards: int = 0) -> None:
        """Take what the pipeline knows now. Returns at once.

        Args:
            cards: how many answer; 0 where that is nothing to remember.
        """
        self._offered = (runs, rates, cards)

    def stop(self) -> None:
        """Write what is left and close the file; give up after a while."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        self.turn()
        while not self._stopping.wait(WRITE_S):
            self.turn()
        self.turn()
        self._close()

    def turn(self) -> None:
        """Write and read once."""
        now_s = time.monotonic()
        try:
            if self._store is None and now_s < self._open_again_s:
                return
            if self._store is None or now_s >= self._tidy_again_s:
                self._open(now_s)
            self._read()
            self._write(now_s)
        except HistoryError as error:
            self._close()
            self._open_again_s = now_s + AGAIN_S
            self._say(str(error))
        else:
            self._say("")

    def _open(self, now_s: float) -> None:
        """Open the file, checked and pruned. What is open already is opened anew: its pages may be cached ones."""
        self._close()
        try:
            self._store = Store.open(self._path, self._settings, time.time())
        except HistoryError:
            self._read_only()
            raise
        self._version = -1
        self._tidy_again_s = now_s + TIDY_S
        if self._store.set_aside is not None:
            self._written, self._written_rates, self._cards = {}, {}, 0  # of the file that is gone
            self._log.error(
                "the history was damaged and is begun anew",
                damaged=str(self._store.set_aside),
                advice="runs from before are not compared; the damaged file may be deleted",
            )
        self._store.prune(self._settings, time.time())

    def _read_only(self) -> None:
        """Read what can be read of a file that cannot be written, the first time."""
        if self.past is not NOTHING:
            return
        try:
            store = Store.open_to_read(self._path)
        except HistoryError:
            return
        try:
            self.past = store.past()
        except HistoryError:
            return
        finally:
            store.close()

    def _write(self, now_s: float) -> None:
        assert self._store is not None  # opened before
        offered_runs, offered_rates, cards = self._offered
        runs = {run.key: run for run in offered_runs if run.beginning not in self.past.forgotten and self._is_due(run)}
        fresh = {key: run for key, run in runs.items() if self._written.get(key) is not run}
        rates = [rate for key, rate in offered_rates.items() if self._is_news(key, rate)]
        counted = cards > 0 and (cards != self._cards or now_s >= self._cards_again_s)
        if fresh or rates or counted:
            seen = (cards, time.time()) if counted else None
            gone = self._store.write(fresh.values(), rates, self._written, cards=seen)
            if counted:
                self._cards, self._cards_again_s = cards, now_s + CARDS_S
                self.past = replace(self.past, most_cards=max(self.past.most_cards, cards))
            self._forget(gone)
            self._written = {key: run for key, run in runs.items() if key not in gone}
            self._written_rates = dict(offered_rates)
            self.past = with_news(self.past, [run for key, run in fresh.items() if key not in gone], rates)
        self._forgotten_at_last({run.beginning for run in offered_runs})

    def _is_due(self, run: Run) -> bool:
        """Return False for a run that says less than what the file holds of it, from before a restart of gpumon."""
        known = next((one for one in self.past.runs.get(run.workload, ()) if one.key == run.key), run)
        return known.beginning == run.beginning or run.watched_s >= min(known.watched_s, LEAST_WATCHED_S)

    def _forget(self, gone: Iterable[Key]) -> None:
        """Tell the pipeline to drop runs that are no longer in the file: somebody has had them forgotten."""
        beginnings = {self._written.pop(key).beginning for key in gone}
        if beginnings:
            self.past = replace(self.past, forgotten=self.past.forgotten | beginnings)

    def _forgotten_at_last(self, offered: Container[Beginning]) -> None:
        """Remember no longer what the pipeline has dropped."""
        held = frozenset(beginning for beginning in self.past.forgotten if beginning in offered)
        if held != self.past.forgotten:
            self.past = replace(self.past, forgotten=held)

    def _is_news(self, key: tuple[tuple[str, ...], str], rate: SetRate) -> bool:
        """Return True for a rate better than what the file holds."""
        if self._written_rates.get(key) is rate:
            return False
        known = self.past.rates.get(key)
        return known is None or rate.bytes_per_second > known.bytes_per_second

    def _read(self) -> None:
        """Read the file where nothing was read yet, or where another process has written to it."""
        assert self._store is not None  # opened before
        version = self._store.changed_by_others()
        if version != self._version:
            self._forget(self._store.missing(self._written))
            self.past = replace(self._store.past(), forgotten=self.past.forgotten)
            self._version = version

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _say(self, problem: str) -> None:
        if problem == self._problem:
            return
        if problem:
            self._log.warning("the history is not written", problem=problem)
        else:
            self._log.info("the history is written again", path=str(self._path))
        self._problem = problem
        self.findings = (FINDINGS_BY_NAME[READ_ONLY].found((problem,)),) if problem else ()


def with_news(past: Past, fresh: Sequence[Run], rates: Sequence[SetRate]) -> Past:
    """Return what is known with runs and rates that were just written."""
    runs = dict(past.runs)
    for run in fresh:
        if run.workload:
            others = tuple(known for known in runs.get(run.workload, ()) if known.key != run.key)
            runs[run.workload] = (run, *others)[:RUNS_OF_A_WORKLOAD]
    best = {**past.rates, **{(rate.uuids, rate.link): rate for rate in rates}}
    return replace(past, runs=runs, rates=best)
