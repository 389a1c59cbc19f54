"""Which class of a job is told, after how long: one table for the Prometheus rules and the embedded notifications.

The analysis decides the class; here stands only for how much of which time it must have held. Windows are long enough
for a start, a checkpoint or an evaluation to pass unmentioned (tests/rules replays thousands of those), and a share
below 1 lets a verdict waver without starting anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.model.verdict import JobClass


@dataclass(frozen=True, slots=True)
class ClassAlert:
    """One class that is told to the job's tenant."""

    name: str
    job_class: JobClass
    severity: str
    window_s: float  # time looked back over
    share: float  # of the window in this class: more raises the alert


CLASS_ALERTS: tuple[ClassAlert, ...] = (
    # 12 of 20 minutes: loading a large model and the first evaluation together stay below.
    ClassAlert("GpumonJobCommunicationBound", JobClass.COMMUNICATION, "warning", 1200.0, 0.6),
    # 18 of 30 minutes: a checkpoint of a 70 B model to a slow disk takes 10.
    ClassAlert("GpumonJobHostBound", JobClass.HOST, "warning", 1800.0, 0.6),
    # 57 of 60 minutes: a chat server sees lulls of half an hour in a normal day.
    ClassAlert("GpumonJobIdleAllocation", JobClass.IDLE, "warning", 3600.0, 0.95),
    # 2 of 5 minutes: the class itself asks for 5 minutes without any progress.
    ClassAlert("GpumonJobHung", JobClass.HUNG, "critical", 300.0, 0.4),
)


@dataclass(frozen=True, slots=True)
class Hold:
    """For how much of which time a condition must have been seen before the embedded notifications tell it."""

    window_s: float
    share: float


# As the rules in deploy/prometheus do: `for` of ten minutes over an average of five is most of a quarter of an hour.
_LASTING = Hold(900.0, 0.75)
HOLDS: dict[str, Hold] = {
    **{row.name: Hold(row.window_s, row.share) for row in CLASS_ALERTS},
    "GpumonJobAddGpuSlowdown": _LASTING,
    "GpumonJobStraggler": _LASTING,
    "GpumonJobMisconfigured": _LASTING,
    "GpumonNodeFinding": _LASTING,
    "GpumonHistoryReadOnly": _LASTING,
    "GpumonLinkDowntrained": Hold(1200.0, 0.8),
    "GpumonGpuMissing": Hold(600.0, 0.95),
    "GpumonDriverMissing": Hold(600.0, 0.95),
    "GpumonJobGpuLost": Hold(180.0, 0.9),
    "GpumonGpuLost": Hold(180.0, 0.9),
    "GpumonThermalThrottle": Hold(900.0, 0.02),
    "GpumonPowerBrake": Hold(900.0, 0.005),
    # Events and standing facts of the driver: seen is enough, and one wrong reading is not.
    "GpumonJobXid": Hold(10.0, 0.3),
    "GpumonXidHardware": Hold(10.0, 0.3),
    "GpumonXidUnknown": Hold(10.0, 0.3),
    "GpumonEccUncorrected": Hold(60.0, 0.5),
    "GpumonRowRemap": Hold(120.0, 0.5),
}
# An alert ends when its condition has been absent for this long: `keep_firing_for` of the rules.
CLEAR_S = 600.0

# Codes of the driver by who can do something about them. The split follows common practice in public reports
# (docs/runbook.md); what stands in neither list is told to the operator as unknown.
APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)
HARDWARE_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 120)
RECORDED_XIDS = (63, 92)
XID_SHOWN_S = 60.0  # an application's error is an event: seen, told, and over ten minutes later
XID_HARDWARE_SHOWN_S = 6 * 3600.0  # a hardware error outlives a restart of the job, and of gpumon in Prometheus
