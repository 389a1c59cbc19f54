"""`gpumon notify`: a test message to a tenant's targets, or a relay from Alertmanager to them."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable

import structlog

from gpumon.app import log
from gpumon.app.telling import memory_file
from gpumon.cli.arguments import Subparsers
from gpumon.config import Config, load
from gpumon.model.address import split_address
from gpumon.model.errors import ConfigError
from gpumon.notify import relay
from gpumon.notify.courier import Courier
from gpumon.notify.outbox import RELAY_FILE, Kept
from gpumon.notify.relay_server import RelayServer
from gpumon.notify.target import OPERATOR, Secret
from gpumon.notify.trial import try_targets


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("notify", help="try or relay the notifications of tenants", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration; default /etc/gpumon/gpumon.toml if it exists")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--test", metavar="TENANT", help='send a test message to the targets of a tenant, or of "operator"'
    )
    what.add_argument(
        "--relay",
        metavar="ADDR:PORT",
        help="pass on what Alertmanager posts to http://ADDR:PORT/alertmanager, until told to stop",
    )
    parser.add_argument("--token-file", metavar="FILE", help="with --relay: take posts with this bearer token only")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Send, and print what each service said; 1 if one did not take it. Or relay until told to stop."""
    config = load(args.config, os.environ)
    return _relay(config, args.relay, args.token_file) if args.relay else _test(config, args.test)


def _test(config: Config, name: str) -> int:
    outcomes = list(try_targets(config.notify.targets, _owner(config, name)))
    if not outcomes:
        raise ConfigError((f"{name} has no [[notify.target]] in {config.source or 'the configuration'}",))
    for target, problem in outcomes:
        print(f"{target.name} ({target.kind}): {problem or 'sent'}")
    return int(any(problem for _, problem in outcomes))


def _owner(config: Config, name: str) -> str:
    tenants = config.settings.tenants.tenants
    if name in tenants:
        return name
    if name == OPERATOR.removeprefix("@"):
        return OPERATOR
    known = ", ".join([*tenants, OPERATOR.removeprefix("@")])
    raise ConfigError((f"--test {name!r} is no tenant; known are {known}",))


def _relay(config: Config, address: str, token_file: str | None) -> int:
    log.configure(config.log_level, config.log_format)
    settings = config.notify
    if not settings.targets:
        raise ConfigError((f"there is no [[notify.target]] in {config.source or 'the configuration'}",))
    courier = Courier(memory_file(settings, RELAY_FILE))
    courier.configure(settings.targets)
    lock = threading.Lock()

    def accept(body: bytes) -> None:
        notification = relay.read(body)
        with lock:
            passed = relay.passed_on(
                notification,
                courier.memory.relayed,
                settings.targets,
                now_s=courier.wall(),
                repeat_s=settings.repeat_s,
            )
            courier.queue(passed.messages, Kept(relayed=passed.relayed))

    token = Secret(file=token_file).read() if token_file else ""
    server = _listen(address, accept, token)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.close())
    courier.start()
    structlog.get_logger().info("gpumon relays", port=server.port, targets=len(settings.targets))
    server.serve()
    courier.stop()
    return 0


def _listen(address: str, accept: Callable[[bytes], None], token: str) -> RelayServer:
    try:
        host, port = split_address(address)
        return RelayServer(host, port, accept, token)
    except ValueError as error:
        raise ConfigError((f"--relay {address!r} {error}",)) from None
    except OSError as error:
        raise ConfigError((f"--relay {address}: cannot listen: {error.strerror or error}",)) from None
