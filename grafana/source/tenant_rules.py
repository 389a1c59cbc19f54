"""The recording rules that give card figures a tenant, for the Tenant dashboard.

A card is reached from the job. A card that jobs of several tenants share has no figure here: it would show one tenant
what another does.
"""

from __future__ import annotations

from typing import NamedTuple

from grafana.source.queries import picked

_PREFIX = "gpumon_tenant:"
_KEY = "instance, gpu_job, tenant, gpu, uuid"


class Recorded(NamedTuple):
    """One recording rule."""

    name: str
    says: str
    card: str  # one value for each (instance, uuid)
    direction: str = ""


def _card(metric: str, *matchers: str) -> str:
    return f"max by (instance, uuid) ({picked(metric, *matchers)})"


RECORDED: tuple[Recorded, ...] = (
    *(
        Recorded(
            "pcie_throughput",
            "Traffic over the card's link, mean of 15 s, bytes per second.",
            _card("gpumon_pcie_throughput_bytes_per_second", f'direction="{direction}"'),
            direction,
        )
        for direction in ("rx", "tx")
    ),
    Recorded(
        "gpu_link_capacity",
        "What one direction of the card's link can carry, bytes per second.",
        _card("gpumon_pcie_capacity_bytes_per_second", 'kind="attainable"'),
    ),
    # Two minutes: two scrapes at the slowest usual interval, and a mean where one reading is only an instant.
    Recorded(
        "gpu_power",
        "Power, mean of 2 minutes, watts.",
        "(max by (instance, uuid) (rate(gpumon_gpu_energy_joules_total[2m]))"
        " or max by (instance, uuid) (avg_over_time(gpumon_gpu_power_watts[2m])))",
    ),
    Recorded(
        "gpu_activity",
        "Share of multiprocessors at work where the card can tell, else of time in which memory was read or written; "
        "mean of 2 minutes.",
        "(max by (instance, uuid) (avg_over_time(gpumon_gpu_sm_active_ratio[2m]))"
        " or max by (instance, uuid) (avg_over_time(gpumon_gpu_memory_controller_ratio[2m])))",
    ),
    Recorded(
        "gpu_memory_share",
        "Memory in use over the card's.",
        f"({_card('gpumon_gpu_memory_used_bytes')} / {_card('gpumon_gpu_memory_total_bytes')})",
    ),
)


def recorded(name: str) -> str:
    """Return the series of a rule. Raises StopIteration for one that does not exist."""
    return _PREFIX + next(rule.name for rule in RECORDED if rule.name == name)


def rules_file() -> str:
    """Return the rules as YAML."""
    text = [
        "# Written by `python -m grafana.generate`; a test compares. Edit grafana/source/tenant_rules.py, not this file.",
        "# Load beside gpumon.alerts.yml: the Tenant dashboard shows card figures from these.",
        "",
        "groups:",
        "  - name: gpumon_tenant_cards",
        "    rules:",
    ]
    for rule in RECORDED:
        text += [
            f"      # {rule.says}",
            f"      - record: {_PREFIX}{rule.name}",
            "        expr: |2-",
            *_expression(rule),
        ]
        if rule.direction:
            text += ["        labels:", f"          direction: {rule.direction}"]
    return "\n".join(text) + "\n"


def _expression(rule: Recorded) -> list[str]:
    tenants = "count by (instance, uuid) (max by (instance, uuid, tenant) (gpumon_job_gpu_info))"
    return [
        "          (",
        f"            max by ({_KEY}) (gpumon_job_gpu_info)",
        f"            unless on (instance, uuid) {tenants} > 1",
        "          )",
        f"          * on (instance, uuid) group_left () {rule.card}",
    ]
