"""`gpumon top`: the node in a terminal, from a running daemon or by watching itself."""

from __future__ import annotations

import argparse
import importlib
import os
import threading
import urllib.error
import urllib.request

from gpumon.app.remembering import remembered
from gpumon.app.watching import watch
from gpumon.cli.arguments import Subparsers
from gpumon.config import Config, load
from gpumon.model.errors import GpumonError
from gpumon.pipeline import initial_state, step
from gpumon.ui import state_json
from gpumon.ui.state_json import State
from gpumon.ui.state_reading import state_of

_TIMEOUT_S = 3.0
_LARGEST_BYTES = 8 << 20


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "top",
        help="live view in the terminal",
        description="Shows a running daemon (--url, else the one on this node), or watches by itself where none runs.",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--url", metavar="URL", help="a daemon's address, like http://127.0.0.1:9836")
    source.add_argument("--simulate", metavar="SCENARIO", help="watch a simulated node; see `gpumon scenarios`")
    parser.add_argument("--no-color", action="store_true", help="words and shapes only; also when NO_COLOR is set")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show the screen until q."""
    try:
        top = importlib.import_module("gpumon.ui.top")
    except ModuleNotFoundError as error:
        raise GpumonError(
            f"`gpumon top` needs the extra `top` ({error.name} is missing): pip install 'gpumon-exporter[top]'"
        ) from None
    config = load(None, os.environ)
    url = args.url or (None if args.simulate else _local_daemon(config))
    colour = not args.no_color and not os.environ.get("NO_COLOR")
    if url is not None:
        over_http(url)  # a daemon that does not answer is told before the screen is taken
        top.Top(lambda: over_http(url), colour=colour).run()
        return 0
    watching = _Watching(config, args.simulate)
    try:
        top.Top(watching.newest, colour=colour).run()
    finally:
        watching.close()
    return 0


def _local_daemon(config: Config) -> str | None:
    """Return the address of this node's daemon, None when none answers."""
    url = f"http://{'127.0.0.1' if config.listen.startswith(':') else ''}{config.listen}"
    try:
        over_http(url)
    except GpumonError:
        return None
    return url


def over_http(url: str) -> State:
    """Return a daemon's state. Raises GpumonError when none answers, or something else does."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/state", timeout=_TIMEOUT_S) as answer:
            return state_of(answer.read(_LARGEST_BYTES))
    except urllib.error.HTTPError as error:
        raise GpumonError(f"{url} answers {error.code}: {error.read(200).decode('utf-8', 'replace').strip()}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise GpumonError(f"{url}: no daemon answers: {reason}") from None


class _Watching:
    """Watches in a thread of its own; the screen asks for the newest state."""

    def __init__(self, config: Config, scenario: str | None) -> None:
        self._newest: State | None = None
        self._failed = ""
        self._closing = False
        self._thread = threading.Thread(target=self._follow, args=(config, scenario), name="watching", daemon=True)
        self._thread.start()

    def _follow(self, config: Config, scenario: str | None) -> None:
        state = initial_state()
        try:
            past, settings = remembered(config, simulated=scenario is not None)
            for tick in watch(config, scenario, None):
                state = step(state, tick, settings, past)
                if state.view is not None:
                    self._newest = state_json.state(state.view)
                if self._closing:
                    return
        except GpumonError as error:
            self._failed = str(error)

    def newest(self) -> State | None:
        """Return the newest state, None before the first. Raises GpumonError when watching ended."""
        if self._failed:
            raise GpumonError(self._failed)
        return self._newest

    def close(self) -> None:
        """End the watching and close the driver; a hung card is left behind."""
        self._closing = True
        self._thread.join(4.0)
