"""`gpumon COMMAND ...`: find the command's module, parse, run, and turn errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import gpumon
from gpumon.app import log
from gpumon.model.errors import ConfigError, GpumonError

OK, FOUND, USAGE = 0, 1, 2

# Command -> module of gpumon.cli with add_parser(subparsers) and run(args). Imported when it is the one asked for.
COMMANDS: dict[str, str] = {
    "run": "run",
    "release": "release",
    "top": "top",
    "report": "report",
    "record": "record",
    "replay": "replay",
    "topo": "topo",
    "doctor": "doctor",
    "plan": "plan",
    "scenarios": "scenarios",
    "tenants": "tenants",
    "history": "history",
    "notify": "notify",
    "check-config": "check_config",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 fine, 1 a check failed or something was found, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    # One thread is enough for arrays of a few thousand numbers, and a pool of them costs memory. Before numpy loads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if words[:1] == ["run"]:
        _mind_signals_while_starting()
    args = _parser(words).parse_args(words)
    log.configure("warning", "auto")  # `run` sets its own
    try:
        return int(args.run(args))
    except ConfigError as error:
        for problem in error.problems:
            print(f"gpumon: {problem}", file=sys.stderr)
        return USAGE
    except GpumonError as error:
        print(f"gpumon: {error}", file=sys.stderr)
        return FOUND
    except BrokenPipeError:
        # The reader of our output went away (`| head`). Keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130


def _mind_signals_while_starting() -> None:
    """End at SIGTERM and outlive SIGHUP before the daemon is there to handle them, up to a second after the start.

    For the first process of a container the kernel drops a signal without a handler: its stop would wait in vain.
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(OK))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpumon", description=gpumon.__doc__)
    parser.add_argument("--version", action="version", version=f"gpumon {gpumon.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen = next((word for word in words if word in COMMANDS), None)
    for name in [chosen] if chosen else COMMANDS:
        importlib.import_module(f"gpumon.cli.{COMMANDS[name]}").add_parser(commands)
    return parser
