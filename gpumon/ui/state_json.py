"""The JSON of CONTRACT: /api/v1/state, `report --format json` and `replay --format json` share these types.

Missing numbers are null, never NaN. Without authentication it tells what /metrics tells, in other words: no process,
command line, environment or path.
"""

from __future__ import annotations

import math

import msgspec

from gpumon.model.document import Document
from gpumon.model.fault import Fault
from gpumon.model.text import shown_text
from gpumon.model.verdict import TIME_STATES, Finding, Interval, Outcome, Scaling, Verdict
from gpumon.model.view import CardView, DirectionView, JobView, LinkView, NodeView

SCHEMA = 1


class DirectionState(msgspec.Struct, frozen=True):
    """One direction of a link, from the card's side. Windows as in CONTRACT: mean 15 s, peak 60 s."""

    bytes_per_second: float
    half_width_bytes_per_second: float
    peak_bytes_per_second: float
    saturation_ratio: float
    observed_ratio: float


class LinkState(msgspec.Struct, frozen=True):
    """A card's PCIe link or its NVLinks together."""

    rx: DirectionState
    tx: DirectionState
    ceiling_bytes_per_second: float
    attainable_bytes_per_second: float
    ceiling_assumed: bool
    downtrained: bool | None
    generation: float
    generation_max: float
    width_lanes: float
    width_max_lanes: float


class SliceState(msgspec.Struct, frozen=True):
    """A MIG slice."""

    mig_uuid: str
    profile: str
    memory_used_bytes: float


class GpuState(msgspec.Struct, frozen=True):
    """One card."""

    gpu: int
    uuid: str
    name: str
    pci_bus_id: str
    numa_node: int | None
    up: bool
    fault: str | None
    last_sample_age_seconds: float
    utilization_ratio: float
    memory_controller_ratio: float
    sm_active_ratio: float
    tensor_active_ratio: float
    dram_active_ratio: float
    memory_used_bytes: float
    memory_total_bytes: float
    power_watts: float
    power_limit_watts: float
    temperature_celsius: float
    sm_clock_hertz: float
    sm_clock_max_hertz: float
    throttled: tuple[str, ...]
    pcie: LinkState
    nvlink: LinkState | None
    mig: tuple[SliceState, ...]
    xids: dict[str, int]
    gpu_jobs: tuple[str, ...]
    memory_shared_with_host: bool = False  # it has none of its own (GB10 and alike)


class UplinkState(msgspec.Struct, frozen=True):
    """A link that several cards share. rx is towards the cards."""

    uplink: str
    gpus: tuple[int, ...]
    attainable_bytes_per_second: float
    rx_saturation_ratio: float
    tx_saturation_ratio: float


class FindingState(msgspec.Struct, frozen=True):
    """A row of the catalogue that holds. `gain`: expected speed-up range, 1.2 is 20 % faster."""

    finding: str
    severity: str
    audience: str
    title: str
    title_zh: str
    evidence: tuple[str, ...]
    advice: str
    advice_zh: str
    gain: tuple[float, float] | None


class StragglerState(msgspec.Struct, frozen=True):
    """Why the others wait for this card."""

    gpu: int
    cause: str
    cost_ratio: float


class ScalingState(msgspec.Struct, frozen=True):
    """Was the last card worth it."""

    efficiency: float
    evidence: str
    recommended_gpus: int | None
    recommended_set: tuple[int, ...]
    slowdown: bool
    uncertainty: float | None  # half-width of the efficiency
    reasons: tuple[str, ...]  # sentences with numbers, strongest first


class OutcomeState(msgspec.Struct, frozen=True):
    """Findings of the workload's run before are gone: what that was to bring, and what it brought; 1.2: 20 % faster."""

    findings: tuple[str, ...]
    expected: tuple[float, float]
    seen: float
    uncertainty: float  # half-width of what was seen
    evidence: str
    result: str


class IntervalState(msgspec.Struct, frozen=True):
    """A stretch of one class; seconds from the first sample."""

    t0: float
    t1: float
    job_class: str = msgspec.field(name="class")
    detail: str | None
    stragglers: tuple[int, ...]


class JobState(msgspec.Struct, frozen=True):
    """One job. `intervals` exist in reports and replays only."""

    gpu_job: str
    gpus: tuple[int, ...]
    tenant: str
    kind: str
    job_class: str = msgspec.field(name="class")
    detail: str | None
    confidence: float
    class_age_seconds: float
    strategy: str | None
    framework: str | None
    launcher: str | None
    container: str | None
    pod: str | None
    namespace: str | None
    slurm_job_id: str | None
    user: str | None
    gpus_allocated: int | None
    gpus_lost: int
    start_time: float
    time_ratio: dict[str, float] | None
    time_uncertainty: float
    step_seconds: float
    stragglers: tuple[int, ...]
    straggler_causes: tuple[StragglerState, ...]
    scaling: ScalingState | None
    outcome: OutcomeState | None
    link_saturation: dict[str, float]
    utilization_ratio: float
    power_watts: float
    memory_bytes: float
    evidence: tuple[str, ...]
    against: str | None
    advice: str | None
    advice_zh: str | None
    findings: tuple[FindingState, ...]
    intervals: tuple[IntervalState, ...] | msgspec.UnsetType = msgspec.UNSET


class NodeState(msgspec.Struct, frozen=True):
    """The node as a whole."""

    hostname: str
    driver_version: str | None
    kernel: str | None
    virtualization: str | None
    simulated: bool
    nvml_up: bool
    nvml_fault: str | None
    gpus_up: int
    gpus_expected: int
    uplinks: tuple[UplinkState, ...]
    findings: tuple[FindingState, ...]


class State(msgspec.Struct, frozen=True):
    """The answer of /api/v1/state. `time` is Unix seconds of the tick."""

    schema: int
    time: float
    node: NodeState
    gpus: tuple[GpuState, ...]
    jobs: tuple[JobState, ...]


def document(view: NodeView) -> Document:
    """Return the current state as JSON."""
    return Document(msgspec.json.encode(state(view)), "application/json")


def state(view: NodeView) -> State:
    """Return the current state; jobs that have ended are not in it."""
    indices = gpu_indices(view)
    running = [job for job in view.jobs if math.isnan(job.ended_s)]
    return State(
        schema=SCHEMA,
        time=round(view.wall_s, 3),
        node=node_state(view),
        gpus=gpu_states(view),
        jobs=tuple(job_state(job, indices, view.mono_s) for job in running),
    )


def gpu_indices(view: NodeView) -> dict[str, int]:
    """Return the index of each card by UUID."""
    return {card.card.identity.uuid: card.card.identity.index for card in view.cards}


def node_state(view: NodeView) -> NodeState:
    """Return the node's own part."""
    indices = gpu_indices(view)
    return NodeState(
        hostname=shown_text(view.node.hostname),
        driver_version=_or_none(view.node.driver_version),
        kernel=_or_none(view.node.kernel),
        virtualization=_or_none(view.node.virtualization),
        simulated=view.node.simulated,
        nvml_up=view.nvml_up,
        nvml_fault=_or_none(view.nvml_fault),
        gpus_up=sum(card.tick.up for card in view.cards),
        gpus_expected=view.gpus_expected,
        uplinks=tuple(
            UplinkState(
                uplink=uplink.address,
                gpus=tuple(indices[uuid] for uuid in uplink.uuids if uuid in indices),
                attainable_bytes_per_second=uplink.attainable_bytes_per_second,
                rx_saturation_ratio=uplink.rx_saturation_ratio,
                tx_saturation_ratio=uplink.tx_saturation_ratio,
            )
            for uplink in view.uplinks
        ),
        findings=tuple(map(_finding, view.findings)),
    )


def gpu_states(view: NodeView) -> tuple[GpuState, ...]:
    """Return the cards."""
    jobs: dict[str, list[str]] = {}
    for job in view.jobs:
        if math.isnan(job.ended_s):
            for uuid in dict.fromkeys(card.uuid for card in job.job.cards):
                jobs.setdefault(uuid, []).append(job.job.gpu_job)
    return tuple(_gpu(card, jobs.get(card.tick.uuid, []), view.mono_s) for card in view.cards)


def job_state(
    view: JobView, indices: dict[str, int], mono_s: float, intervals: tuple[Interval, ...] | None = None
) -> JobState:
    """Return one job.

    Args:
        indices: index of each card by UUID.
        mono_s: the tick's time, for the age of the class.
        intervals: given in reports and replays.
    """
    job, verdict = view.job, view.verdict
    return JobState(
        gpu_job=job.gpu_job,
        gpus=tuple(sorted({indices[card.uuid] for card in job.cards if card.uuid in indices})),
        tenant=job.tenant,
        kind=job.kind.value,
        job_class=verdict.job_class.value,
        detail=_or_none(verdict.detail),
        confidence=verdict.confidence,
        class_age_seconds=mono_s - verdict.since_s,
        strategy=_or_none(verdict.strategy or job.layout.asked),
        framework=_or_none(job.layout.framework),
        launcher=_or_none(job.layout.launcher),
        container=_or_none(job.container),
        pod=_or_none(job.pod),
        namespace=_or_none(job.namespace),
        slurm_job_id=_or_none(job.slurm_job_id),
        user=_or_none(job.user),
        gpus_allocated=job.allocated if job.allocated >= 0 else None,
        gpus_lost=view.gpus_lost,
        start_time=job.start_wall_s,
        time_ratio=_time_ratio(verdict),
        time_uncertainty=verdict.time_split.uncertainty if verdict.time_split else math.nan,
        step_seconds=verdict.step_seconds,
        stragglers=tuple(straggler.gpu for straggler in verdict.stragglers),
        straggler_causes=tuple(
            StragglerState(straggler.gpu, straggler.cause, straggler.cost_ratio) for straggler in verdict.stragglers
        ),
        scaling=_scaling(verdict.scaling),
        outcome=_outcome(verdict.outcome),
        link_saturation=dict(view.link_saturation),
        utilization_ratio=view.utilization_ratio,
        power_watts=view.power_watts,
        memory_bytes=view.memory_bytes,
        evidence=verdict.evidence,
        against=verdict.against or None,
        advice=verdict.advice or None,
        advice_zh=verdict.advice_zh or None,
        findings=tuple(map(_finding, verdict.findings)),
        intervals=msgspec.UNSET if intervals is None else tuple(map(_interval, intervals)),
    )


def _gpu(view: CardView, jobs: list[str], mono_s: float) -> GpuState:
    identity, tick = view.card.identity, view.tick
    return GpuState(
        gpu=identity.index,
        uuid=identity.uuid,
        name=shown_text(identity.name),
        pci_bus_id=identity.pci_address,
        numa_node=identity.numa_node if identity.numa_node >= 0 else None,
        up=tick.up,
        fault=tick.fault.value if tick.fault else None,
        last_sample_age_seconds=mono_s - tick.last_sample_s,
        utilization_ratio=tick.reading("utilization_ratio"),
        memory_controller_ratio=tick.reading("memory_controller_ratio"),
        sm_active_ratio=tick.reading("sm_active_ratio"),
        tensor_active_ratio=tick.reading("tensor_active_ratio"),
        dram_active_ratio=tick.reading("dram_active_ratio"),
        memory_used_bytes=tick.reading("memory_used_bytes"),
        memory_total_bytes=tick.reading("memory_total_bytes"),
        power_watts=tick.reading("power_watts"),
        power_limit_watts=tick.reading("power_limit_watts"),
        temperature_celsius=tick.reading("temperature_gpu_celsius"),
        sm_clock_hertz=tick.reading("sm_clock_hertz"),
        sm_clock_max_hertz=tick.reading("sm_clock_max_hertz"),
        throttled=tuple(sorted(tick.throttle_reasons)),
        pcie=_link(
            view.pcie,
            generation=tick.reading("link_generation"),
            generation_max=tick.reading("link_generation_max"),
            width=tick.reading("link_width_lanes"),
            width_max=tick.reading("link_width_max_lanes"),
        ),
        nvlink=None if view.nvlink is None else _link(view.nvlink),
        mig=tuple(
            SliceState(part.mig_uuid, part.profile, tick.mig_memory_used_bytes.get(part.mig_uuid, math.nan))
            for part in view.card.mig_slices
        ),
        xids={str(xid): count for xid, (count, _) in sorted(view.xids.items())},
        gpu_jobs=tuple(jobs),
        memory_shared_with_host=tick.faults.get("memory_total_bytes") is Fault.NOT_SUPPORTED,
    )


def _link(
    view: LinkView,
    *,
    generation: float = math.nan,
    generation_max: float = math.nan,
    width: float = math.nan,
    width_max: float = math.nan,
) -> LinkState:
    return LinkState(
        rx=_direction(view.rx),
        tx=_direction(view.tx),
        ceiling_bytes_per_second=view.ceiling_bytes_per_second,
        attainable_bytes_per_second=view.attainable_bytes_per_second,
        ceiling_assumed=view.ceiling_assumed,
        downtrained=view.downtrained,
        generation=generation,
        generation_max=generation_max,
        width_lanes=width,
        width_max_lanes=width_max,
    )


def _direction(view: DirectionView) -> DirectionState:
    return DirectionState(
        bytes_per_second=view.bytes_per_second,
        half_width_bytes_per_second=view.half_width_bytes_per_second,
        peak_bytes_per_second=view.peak_bytes_per_second,
        saturation_ratio=view.saturation_ratio,
        observed_ratio=view.observed_ratio,
    )


def _time_ratio(verdict: Verdict) -> dict[str, float] | None:
    split = verdict.time_split
    return None if split is None else {name: getattr(split, name) for name in TIME_STATES}


def _scaling(scaling: Scaling | None) -> ScalingState | None:
    if scaling is None:
        return None
    return ScalingState(
        efficiency=scaling.efficiency,
        evidence=scaling.evidence,
        recommended_gpus=scaling.recommended_gpus or None,
        recommended_set=scaling.recommended_set,
        slowdown=scaling.slowdown,
        uncertainty=None if math.isnan(scaling.uncertainty) else scaling.uncertainty,
        reasons=scaling.reasons,
    )


def _outcome(outcome: Outcome | None) -> OutcomeState | None:
    if outcome is None:
        return None
    return OutcomeState(
        findings=outcome.findings,
        expected=outcome.expected,
        seen=round(outcome.seen, 3),
        uncertainty=round(outcome.uncertainty, 3),
        evidence=outcome.evidence,
        result=outcome.result,
    )


def _finding(finding: Finding) -> FindingState:
    return FindingState(
        finding=finding.finding,
        severity=finding.severity,
        audience=finding.audience,
        title=finding.title,
        title_zh=finding.title_zh or finding.title,
        evidence=finding.evidence,
        advice=finding.advice,
        advice_zh=finding.advice_zh or finding.advice,
        gain=finding.gain,
    )


def _interval(interval: Interval) -> IntervalState:
    return IntervalState(
        t0=interval.t0,
        t1=interval.t1,
        job_class=interval.job_class.value,
        detail=_or_none(interval.detail),
        stragglers=interval.stragglers,
    )


def _or_none(text: str) -> str | None:
    return shown_text(text) or None
