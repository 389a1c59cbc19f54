"""Which alerts are consequences of others and are not told while those hold: as deploy/alertmanager's inhibition."""

from __future__ import annotations

from collections.abc import Collection

from gpumon.notify.condition import Condition

CARD_ALERTS = frozenset(
    {
        "GpumonXidHardware",
        "GpumonXidUnknown",
        "GpumonLinkDowntrained",
        "GpumonThermalThrottle",
        "GpumonPowerBrake",
        "GpumonEccUncorrected",
        "GpumonRowRemap",
    }
)
_CARD_FAULTS = frozenset({"GpumonThermalThrottle", "GpumonPowerBrake", "GpumonLinkDowntrained"})
_CLASS_ALERTS = frozenset(
    {"GpumonJobCommunicationBound", "GpumonJobHostBound", "GpumonJobIdleAllocation", "GpumonJobHung"}
)
_SLOW = (_CLASS_ALERTS - {"GpumonJobHung"}) | {"GpumonJobAddGpuSlowdown", "GpumonJobStraggler"}


def is_muted(condition: Condition, holding: Collection[Condition]) -> bool:
    """Return whether another alert that holds is the reason for this one."""
    return any(other.key != condition.key and _explains(other, condition) for other in holding)


def _explains(reason: Condition, result: Condition) -> bool:
    if reason.alert == "GpumonDriverMissing":
        return True  # nothing else is known
    if reason.gpu_job and (reason.gpu_job, reason.tenant) == (result.gpu_job, result.tenant):
        return _explains_in_job(reason, result)
    if not reason.uuid or reason.uuid != result.uuid:
        return False
    if reason.alert == "GpumonGpuLost":
        return result.alert in CARD_ALERTS
    straggles = result.alert == "GpumonJobStraggler" and result.audience == "operator"
    return reason.alert in _CARD_FAULTS and straggles


def _explains_in_job(reason: Condition, result: Condition) -> bool:
    if reason.alert == "GpumonJobGpuLost":
        return result.alert != "GpumonJobGpuLost"
    if reason.alert == "GpumonJobHung":
        return result.alert in _SLOW
    same_class = reason.job_class != "" and reason.job_class == result.job_class
    if reason.alert == "GpumonJobMisconfigured":
        return same_class and reason.severity != "info" and result.alert in _CLASS_ALERTS
    return reason.alert == "GpumonJobAddGpuSlowdown" and result.alert == "GpumonJobCommunicationBound"
