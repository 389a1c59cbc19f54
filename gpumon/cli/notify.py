"""`gpumon notify`: a test message to a tenant's targets, or a relay from Alertmanager to them."""

from __future__ import annotations

import argparse
import os

from gpumon.cli.arguments import Subparsers
from gpumon.config import Config, load
from gpumon.model.errors import ConfigError
from gpumon.notify.target import OPERATOR
from gpumon.notify.trial import try_targets


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("notify", help="try the notifications of a tenant", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration; default /etc/gpumon/gpumon.toml if it exists")
    parser.add_argument(
        "--test",
        metavar="TENANT",
        required=True,
        help='send a test message to the targets of a tenant, or of "operator"',
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Send, and print what each service said; 1 if one did not take it."""
    config = load(args.config, os.environ)
    owner = _owner(config, args.test)
    outcomes = list(try_targets(config.notify.targets, owner))
    if not outcomes:
        raise ConfigError((f"{args.test} has no [[notify.target]] in {config.source or 'the configuration'}",))
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
