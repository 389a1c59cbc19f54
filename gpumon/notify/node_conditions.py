"""What is wrong with cards, links and the node at one tick, as the operator is to hear it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpumon.model.findings import FINDINGS_BY_NAME, OPERATOR
from gpumon.model.view import CardView, NodeView
from gpumon.notify.alerts import APPLICATION_XIDS, HARDWARE_XIDS, RECORDED_XIDS, XID_HARDWARE_SHOWN_S
from gpumon.notify.condition import Condition

_NAMED_FINDINGS = {"history_read_only": "GpumonHistoryReadOnly"}


def node_conditions(view: NodeView) -> Iterator[Condition]:
    """Yield what is wrong with the node. Without a driver only that is known."""
    guests = sum(gpu.driver == "vfio-pci" for gpu in view.topology.pci_gpus)
    if not view.nvml_up:
        if view.nvml_fault != "released" and guests < len(view.topology.pci_gpus):
            yield Condition("GpumonDriverMissing", "critical", OPERATOR)
        return
    if view.gpus_expected - guests > len(view.cards):
        yield Condition("GpumonGpuMissing", "critical", OPERATOR)
    for card in view.cards:
        yield from _of_card(card, view.wall_s)
    for finding in view.findings:
        kind = FINDINGS_BY_NAME.get(finding.finding)
        if kind is not None and kind.audience == OPERATOR:
            name = _NAMED_FINDINGS.get(kind.finding, "GpumonNodeFinding")
            yield Condition(name, kind.severity, OPERATOR, finding=kind.finding)


def _of_card(view: CardView, wall_s: float) -> Iterator[Condition]:
    identity = view.card.identity
    card = Condition("", "warning", OPERATOR, gpu=str(identity.index), uuid=identity.uuid)
    yield from _errors(card, view, wall_s)
    if not view.tick.up:
        yield replace(card, alert="GpumonGpuLost", severity="critical")
        return
    if "hw_thermal" in view.tick.throttle_reasons:
        yield replace(card, alert="GpumonThermalThrottle")
    if "hw_power_brake" in view.tick.throttle_reasons:
        yield replace(card, alert="GpumonPowerBrake")
    if view.pcie.downtrained:
        yield replace(card, alert="GpumonLinkDowntrained")
    if view.counters.get("ecc_uncorrected", 0.0) > 0:
        yield replace(card, alert="GpumonEccUncorrected", severity="critical")
    if view.tick.readings.get("row_remap_failed", 0.0) > 0:
        yield replace(card, alert="GpumonRowRemap", severity="critical", text="GpumonRowRemap@critical")
    elif view.tick.readings.get("row_remap_pending", 0.0) > 0:
        yield replace(card, alert="GpumonRowRemap")


def _errors(card: Condition, view: CardView, wall_s: float) -> Iterator[Condition]:
    for xid, (_, last_wall_s) in view.xids.items():
        if xid in APPLICATION_XIDS or wall_s - last_wall_s > XID_HARDWARE_SHOWN_S:
            continue
        error = replace(card, alert="GpumonXidHardware", xid=str(xid))
        if xid in HARDWARE_XIDS:
            yield replace(error, severity="critical")
        elif xid in RECORDED_XIDS:
            yield replace(error, severity="info", text="GpumonXidHardware@info")
        else:
            yield replace(error, alert="GpumonXidUnknown")
