"""The daemon: ticks in, verdicts out, served until told to stop.

The main thread is the pipeline: it waits for a tick, judges it, publishes it, and feeds the service manager's
watchdog. Everything else (card pollers, HTTP workers, slow timers, control socket) runs in daemon threads, so a hung
driver call can neither stop the page nor the end of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import structlog

from gpumon.app import securing, service_manager
from gpumon.app.control import ControlSocket
from gpumon.app.hidden import hidden
from gpumon.app.log import dropped_lines
from gpumon.app.remembering import Remembering
from gpumon.app.telling import Telling
from gpumon.app.timers import Timers
from gpumon.config import Config
from gpumon.export.access import Access, read_tokens
from gpumon.export.answer import Site
from gpumon.export.publish import Published, Publisher
from gpumon.export.request import Request
from gpumon.export.scope import Scope
from gpumon.export.server import Server
from gpumon.hardware.reader import HostReader, NodeReader
from gpumon.model.errors import ConfigError
from gpumon.model.samples import Tick
from gpumon.pipeline import initial_state, step
from gpumon.recording import Writer
from gpumon.sampling import Sampler
from gpumon.ui import page, state_json
from gpumon.ui.history_ring import HistoryRing

if TYPE_CHECKING:
    from ssl import SSLSocket

# The interpreter hands its lock to a waiting thread after this time; at the default 5 ms one long analysis step would
# show in a scrape's p99 (measured: 15 ms of analysis a second push it to 5.9 ms).
SWITCH_INTERVAL_S = 0.0005
RELEASE_DEFAULT_S = 120.0
# A bridge that falls back to fewer lanes changes what all cards below it can carry. Two small files a port.
LINKS_PERIOD_S = 5.0
TOPOLOGY_PERIOD_S = 60.0
HOUSEKEEPING_PERIOD_S = 60.0
# The wall clock moved by more than this against the monotonic one: it was set.
CLOCK_STEP_S = 5.0
MOST_ERRORS = 20  # kinds of error in single cards and jobs that are logged


@dataclass(frozen=True, slots=True)
class Sources:
    """What the daemon watches."""

    node: NodeReader
    host: HostReader


class Daemon:
    """Built, then `run` once. Raises ConfigError when it cannot listen where it was told to."""

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config],
        sources: Sources,
        control: list[Path],
        recording: Writer | None,
    ) -> None:
        """Bind the listening socket; nothing is sampled yet.

        Args:
            reload: reads the configuration again, raising ConfigError.
            control: where the control socket may be.
        """
        self._log = structlog.get_logger()
        self._config = config
        self._reload = reload
        self._sources = sources
        self._control_paths = control
        self._recording = recording
        self._state = initial_state()
        self._remembering = Remembering(config, simulated=sources.node.facts().simulated)
        self._telling = Telling(config, simulated=sources.node.facts().simulated)
        self._publisher = Publisher(config.settings.max_jobs)
        self._published: Published = self._publisher.before_first_tick(time.monotonic())
        self._sampler = Sampler(sources.node, sources.host, config.settings.sampling)
        self._recent = HistoryRing()
        users, self._tls = securing.from_file(config.web_config_file)
        self._access = _access(users, config)
        self._server = Server(
            config.listen,
            current=lambda: self._published,
            mono_s=time.monotonic,
            site=Site(
                fixed={"/": page.document()},
                live={"/api/v1/state": state_json.document, "/api/v1/recent": self._recent.document},
            ),
            authorize=self._authorize,
            handshake=self._secure if self._tls is not None else None,
        )
        self._stopping = False
        self._reloading = False
        self._clock_offset_s = time.time() - time.monotonic()
        self._failed = ""
        self._unjudged: set[str] = set()
        self._hidden: frozenset[str] = frozenset()

    def _authorize(self, request: Request) -> Scope | None:
        return self._access.authorize(request)  # a reload puts another in its place

    def _secure(self, sock: socket.socket) -> SSLSocket:
        assert self._tls is not None  # given to the server only then
        return self._tls(sock)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for number, act in (
            (signal.SIGTERM, self._stop),
            (signal.SIGINT, self._stop),
            (signal.SIGHUP, self._ask_reload),
            (signal.SIGUSR1, self._release_default),
        ):
            signal.signal(number, act)
        timers = Timers(
            {
                "links": (LINKS_PERIOD_S, self._sampler.refresh_links),
                "topology": (TOPOLOGY_PERIOD_S, self._sampler.refresh_topology),
                "housekeeping": (HOUSEKEEPING_PERIOD_S, self._housekeeping),
            }
        )
        control = ControlSocket(self._control_paths, self._command)
        port = self._server.start()
        self._remembering.start()
        self._telling.start()
        self._sampler.start()
        timers.start()
        self._tell_hidden()
        self._log.info("gpumon serves", address=self._config.listen, port=port, control=str(control.path or "none"))
        try:
            code = self._loop(timers)
        finally:
            service_manager.notify("STOPPING=1")
            timers.stop()
            control.close()
            self._sampler.stop()
            self._server.stop()
            self._remembering.stop()
            self._telling.stop()
            if self._recording is not None:
                self._recording.close()
        self._log.info("gpumon stopped")
        return code

    def _loop(self, timers: Timers) -> int:
        """Judge ticks until told to stop; return the exit code."""
        ready = False
        while not self._stopping:
            tick = self._sampler.next_tick()
            if tick is None:  # woken to stop
                continue
            self._judge(tick)
            service_manager.notify(*(() if ready else ("READY=1",)), "WATCHDOG=1", f"STATUS={self._status(tick)}")
            ready = True
            offset_s = time.time() - time.monotonic()
            if abs(offset_s - self._clock_offset_s) > CLOCK_STEP_S:
                self._log.warning("wall clock was set", step_s=round(offset_s - self._clock_offset_s, 1))
                timers.clock_stepped()
            self._clock_offset_s = offset_s
            if self._reloading:
                self._reloading = False
                self._apply_reload()
            if self._has_failed(tick):
                return 1
        return 0

    def _has_failed(self, tick: Tick) -> bool:
        """Return whether gpumon was told to end when the driver cannot be opened, and it cannot."""
        most = self._config.settings.sampling.exit_after_failures
        if not 0 < most <= self._sampler.failed_tries:
            return False
        self._log.error(
            "the driver cannot be opened: gpumon ends, as sampling.exit_after_failures says",
            tries=most,
            reason=tick.nvml_fault.value if tick.nvml_fault else "",
        )
        return True

    def _judge(self, tick: Tick) -> None:
        tick = self._remembering.heard(tick)
        if self._recording is not None:
            tick = self._recording.write(tick)
        start_s = time.thread_time()
        try:
            settings = self._remembering.salted(self._config.settings)
            self._state = step(self._state, tick, settings, self._remembering.past, self._tell_unjudged)
            view = self._state.view
            assert view is not None  # every step makes one
            view = replace(self._remembering.shown(view), analysis_seconds=time.thread_time() - start_s)
            self._remembering.offer(self._state)
            self._telling.observe(view)
            self._published = self._publisher.publish(view, self._telling.counts())
            self._recent.append(view)
        except Exception as error:  # noqa: BLE001 - edge: a fault in one tick must not end the watching; the page goes stale and says so
            if repr(error) != self._failed:
                self._failed = repr(error)
                self._log.exception("a tick could not be judged; the page shows gpumon's own series until one can")
        else:
            self._failed = ""

    def _tell_unjudged(self, subject: str) -> None:
        """Log that one card or job cannot be judged, once for each kind of error; the others are judged as ever."""
        error = repr(sys.exc_info()[1])
        if error not in self._unjudged and len(self._unjudged) < MOST_ERRORS:
            self._unjudged.add(error)
            self._log.exception("a card or job could not be judged and begins anew", subject=subject)

    def _status(self, tick: Tick) -> str:
        up = sum(card.up for card in tick.card_ticks)
        fault = "" if tick.nvml_fault is None else f", driver: {tick.nvml_fault.value}"
        return f"{up} of {len(tick.cards)} cards answer{fault}"

    def _tell_hidden(self) -> None:
        """Log what the surroundings hide, each when it first is: a driver may come, or go, after the start."""
        if self._sources.node.facts().simulated:
            return
        found = hidden(Path(self._config.procfs_root), Path(self._config.sysfs_root))
        for what in found.keys() - self._hidden:
            self._log.warning(found[what], hidden=what)
        self._hidden = frozenset(found)

    def _housekeeping(self) -> None:
        self._tell_hidden()
        _return_freed_memory()
        if dropped := dropped_lines():
            self._log.warning("log lines were dropped", total=dropped)
        if self._recording is not None and self._recording.problem:
            self._log.warning("recording", problem=self._recording.problem)

    def _apply_reload(self) -> None:
        service_manager.reloading()
        try:
            config = self._reload()
            users, tls = securing.from_file(config.web_config_file)
            access = _access(users, config)
        except ConfigError as error:
            for problem in error.problems:
                self._log.error("configuration not reloaded", problem=problem)
        else:
            if config.listen != self._config.listen:
                self._log.warning(
                    "http.listen changes with a restart only", now=self._config.listen, then=config.listen
                )
            if (tls is None) != (self._tls is None):
                self._log.warning("TLS is switched on or off with a restart only", now=self._tls is not None)
            else:
                self._tls = tls
            self._config, self._access = config, access
            self._telling.configure(config)
            self._sampler.configure(config.settings.sampling)
            self._log.info("configuration reloaded", source=config.source)
        service_manager.notify("READY=1")

    def _command(self, line: str) -> str:
        name, _, argument = line.partition(" ")
        if name != "release":
            return f"error: {name[:20]!r} is no command of the control socket"
        try:
            seconds = float(argument)
        except ValueError:
            return f"error: {argument[:20]!r} is no number of seconds"
        if not 1 <= seconds <= 86400:
            return "error: the time must be between 1s and 24h"
        closed = self._sampler.release(seconds)
        self._log.info("driver released", seconds=seconds, closed=closed)
        return (
            f"released for {seconds:g} s: no driver call runs, no device file is open"
            if closed
            else "error: a driver call hangs: the driver could not be closed; its card must be reset"
        )

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._sampler.wake()

    def _ask_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reloading = True

    def _release_default(self, _number: int, _frame: FrameType | None) -> None:
        # Draining takes up to 2 s and must not run inside a signal handler of the thread that closes ticks.
        threading.Thread(target=self._command, args=(f"release {RELEASE_DEFAULT_S:g}",), daemon=True).start()


def _return_freed_memory() -> None:
    """Give the system what the C library holds back of freed memory: it would grow for the first hour."""
    with contextlib.suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _access(users: Mapping[str, bytes], config: Config) -> Access:
    """Return who may see what, the tenants' tokens read anew. Raises ConfigError."""
    tokens, problems = read_tokens(config.token_files)
    if problems:
        raise ConfigError(tuple(problems))
    return Access(users, tokens, time.monotonic)
