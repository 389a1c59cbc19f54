"""`gpumon run`: the daemon."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import os
import sys

from gpumon.app import log, sources
from gpumon.app.control import socket_paths
from gpumon.app.daemon import Daemon
from gpumon.cli.arguments import Subparsers
from gpumon.config import Config, load
from gpumon.model.address import split_address
from gpumon.model.errors import ConfigError
from gpumon.recording import Writer


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="watch this node and serve what is found", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration; default /etc/gpumon/gpumon.toml if it exists")
    parser.add_argument("--listen", metavar="ADDR:PORT", help="where to serve; default 127.0.0.1:9836")
    parser.add_argument("--web.config.file", dest="web_config_file", metavar="FILE", help="TLS and passwords")
    parser.add_argument("--simulate", metavar="SCENARIO", help="watch a simulated node; see `gpumon scenarios`")
    parser.add_argument("--record", metavar="FILE", help="also record every tick, as `gpumon record` does")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    config = _config(args)
    log.configure(config.log_level, config.log_format)
    _compact_memory()
    watched = sources.simulated(args.simulate) if args.simulate else sources.real(config)
    recording = Writer(args.record) if args.record else None
    daemon = Daemon(config, lambda: _config(args), watched, socket_paths(os.environ), recording)
    code = daemon.run()
    log.drain()
    # A card thread may hang inside the driver for ever, and the interpreter would wait for the library's destructors.
    sys.stdout.flush()
    os._exit(code)


def _config(args: argparse.Namespace) -> Config:
    """Return the configuration with the command line over it. Raises ConfigError."""
    config = load(args.config, os.environ)
    if args.listen is not None:
        try:
            split_address(args.listen)
        except ValueError as error:
            raise ConfigError((f"--listen {args.listen!r} {error}",)) from None
        config = dataclasses.replace(config, listen=args.listen)
    if args.web_config_file is not None:
        config = dataclasses.replace(config, web_config_file=args.web_config_file)
    return config


def _compact_memory() -> None:
    """Keep one malloc arena per core instead of eight: a dozen threads of small allocations otherwise cost 20 MiB."""
    m_arena_max = -8  # malloc.h
    try:
        ctypes.CDLL(None).mallopt(m_arena_max, 2)
    except (AttributeError, OSError):  # another C library than glibc
        return
