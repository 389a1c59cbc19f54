"""Slow timers (inventory, topology, housekeeping) over APScheduler. Sampling never runs on these.

Two habits of APScheduler 3 are worked around, each reported by its users. It computes the next run on the wall clock,
so a clock set back an hour would stop the timers for an hour (agronholm/apscheduler#351): `clock_stepped` makes them
due. And its thread pool is joined at exit, so a hung job would keep the process (#567), while a job run in the
scheduler's own thread would hold the lock that stopping needs: each job has a daemon thread of its own for each run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

import structlog
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger


class Timers:
    """Runs each job every so many seconds. A job that raises is logged and runs again; one that hangs is left to it."""

    def __init__(self, jobs: Mapping[str, tuple[float, Callable[[], None]]]) -> None:
        """Take name -> (period in seconds, function)."""
        # UTC is given, or the scheduler would look for the local zone and fail where there is no zone data (#439).
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc, executors={"default": DebugExecutor()}, daemon=True
        )
        for name, (period_s, run) in jobs.items():
            self._scheduler.add_job(
                _Apart(name, run),
                IntervalTrigger(seconds=period_s, timezone=timezone.utc),
                id=name,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=None,
            )

    def start(self) -> None:
        """Start the thread; each job runs first after its period."""
        self._scheduler.start()

    def clock_stepped(self) -> None:
        """Make every job due now: the wall clock was set, and what was planned on it means nothing."""
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(timezone.utc))

    def stop(self) -> None:
        """Stop without waiting for a job that runs."""
        self._scheduler.shutdown(wait=False)


class _Apart:
    """Runs a function in a daemon thread; not again while it runs, which is told once."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        self._log = structlog.get_logger().bind(timer=name)
        self._thread: threading.Thread | None = None
        self._told = False

    def __call__(self) -> None:
        """Start the function, unless its last run has not come back."""
        if self._thread is not None and self._thread.is_alive():
            if not self._told:
                self._told = True
                self._log.warning("timer has not come back; it is not started again before it does")
            return
        self._told = False
        self._thread = threading.Thread(target=self._guarded, name=f"timer-{self._name}", daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - edge: one timer failing must not stop the others
            self._log.error("timer failed; it runs again at its next time", error=repr(error))
