"""`gpumon tenants`: which rule caught which job on this node, or the Alertmanager routes of all tenants.

Looks at the node by itself, with the rules of the configuration: the same rules give the same answer as in the daemon,
and a changed configuration can be tried before the daemon reads it. Names of containers need root, as they do there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator, Sequence

from gpumon import jobs
from gpumon.app.watching import watch
from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.model.errors import GpumonError
from gpumon.model.job import Job
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings, TenantSettings

# A first listing comes within 3 s, names of containers within 10 s more.
LONGEST_S = 15.0
SILENT_TICKS = 3
_HEAD = ("TENANT", "JOB", "CARDS", "KIND", "USER", "CONTAINER", "RULE")
_NO_RULE = "no rule matches"


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("tenants", help="which rule caught which job", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration; default /etc/gpumon/gpumon.toml if it exists")
    parser.add_argument("--simulate", metavar="SCENARIO", help="look at a simulated node; see `gpumon scenarios`")
    parser.add_argument(
        "--format",
        choices=("text", "alertmanager"),
        default="text",
        help="text (default): jobs and rules; alertmanager: routes and receivers for every tenant of the configuration",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; 1 when rules exist and a running job is caught by none."""
    config = load(args.config, os.environ)
    if args.format == "alertmanager":
        print(alertmanager(config.settings.tenants), end="")
        return 0
    found, indices = look(watch(config, args.simulate, LONGEST_S), config.settings)
    print(table(found, indices, config.settings.tenants), end="")
    return 1 if config.settings.tenants.rules and any(not job.tenant_rule for job in found) else 0


def look(ticks: Iterator[Tick], settings: Settings) -> tuple[tuple[Job, ...], dict[str, int]]:
    """Attribute until every process was read and every container asked for; return the jobs and cards' indexes.

    Raises: GpumonError while the driver does not answer.
    """
    memory = jobs.initial_memory()
    found: tuple[Job, ...] = ()
    indices: dict[str, int] = {}
    silent = 0
    for tick in ticks:
        silent = 0 if tick.nvml_up else silent + 1
        if silent == SILENT_TICKS:
            reason = tick.nvml_fault.value if tick.nvml_fault else "unknown"
            raise GpumonError(f"the NVIDIA driver does not answer ({reason}); `gpumon doctor` says why and what to do")
        memory, found = jobs.attribute(memory, tick, settings)
        indices = {card.identity.uuid: card.identity.index for card in tick.cards}
        listed = any(card.processes is not None for card in tick.card_ticks)
        pending = tick.processes.containers_pending
        if listed and not math.isnan(tick.processes.read_s) and memory.settled and not pending:
            break
    return found, indices


def table(found: Sequence[Job], indices: dict[str, int], settings: TenantSettings) -> str:
    """Return the jobs as a table, one line each, and what is worth knowing below it."""
    if not found:
        return "No job on this node.\n"
    rows = [_HEAD, *(_row(job, indices) for job in sorted(found, key=lambda job: (job.tenant, job.gpu_job)))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if not settings.rules:
        lines.append("")
        lines.append("The configuration has no [[rule]]: every job is unassigned. docs/jobs.md shows how rules look.")
    return "\n".join(lines) + "\n"


def _row(job: Job, indices: dict[str, int]) -> tuple[str, ...]:
    cards = sorted({indices[card.uuid] for card in job.cards if card.uuid in indices})
    return (
        job.tenant,
        job.gpu_job,
        ",".join(map(str, cards)) or "-",
        job.kind.value,
        job.user or "-",
        job.container or "-",
        job.tenant_rule or _NO_RULE,
    )


def alertmanager(settings: TenantSettings) -> str:
    """Return an Alertmanager configuration: a route and a receiver for each tenant, the operator for all the rest.

    Receivers are empty: where a tenant wants to be told is filled in by hand. Matchers are exact, so a tenant never
    gets another one's alerts, and alerts of jobs without a tenant go to the operator.
    """
    lines = [
        "route:",
        "  receiver: operator",
        "  group_by: [alertname, instance, gpu_job]",
        "  group_wait: 30s",
        "  group_interval: 5m",
        "  repeat_interval: 12h",
    ]
    if settings.tenants:
        lines.append("  routes:")
    for tenant in settings.tenants:
        matcher = json.dumps(f'tenant="{tenant}"')
        lines += [
            f"    - matchers: ['audience=\"customer\"', {matcher}]",
            f"      receiver: tenant-{tenant}",
        ]
    lines += ["receivers:", "  - name: operator"]
    for tenant in settings.tenants:
        lines.append(f"  - name: tenant-{tenant}")
    return "\n".join(lines) + "\n"
