"""Jobs put together from launches: their cards, relatives, control groups and layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpumon.jobs import layout, naming, rendezvous
from gpumon.jobs.assigning import Assigned, Seen
from gpumon.jobs.devices import Device
from gpumon.jobs.facts import Key
from gpumon.jobs.launch import Launch
from gpumon.jobs.layout.parts import both
from gpumon.jobs.occupancy import Occupancy, Use
from gpumon.jobs.roster import Members, Roster
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.process import Process

# Ranks of one launch say the same; the first ones are enough to know how it was launched.
_RANKS_READ = 8
_STUCK = frozenset({"Z", "X", "D"})


def assemble(
    assigned: Assigned, roster: Roster, seen: Seen, occupied: Occupancy
) -> tuple[dict[str, Launch], tuple[Job, ...]]:
    """Return the launches with what was learnt of them, and their jobs, oldest first."""
    processes = {process.pid: process for process in seen.tick.processes.processes}
    crowded = _crowded(assigned, occupied)
    launches: dict[str, Launch] = {}
    jobs: list[Job] = []
    for name, one in assigned.launches.items():
        members = roster.members[name]
        newest = [
            process
            for pid, start_ticks in members.keys
            if (process := processes.get(pid)) is not None and process.start_ticks == start_ticks
        ]
        cards = _cards(members.keys, occupied.uses, crowded)
        learnt = _stuck(_learnt(one, members, newest, len(cards)), newest, seen.tick.mono_s)
        launches[name] = learnt
        jobs.append(_job(learnt, members, cards, seen))
    jobs.sort(key=lambda job: (job.first_seen_s, job.gpu_job))
    return launches, tuple(jobs)


def _learnt(one: Launch, members: Members, newest: list[Process], cards: int) -> Launch:
    """Return the launch with its layout, joined again only when one of its sources says something new."""
    names = " ".join(sorted({process.thread_names for process in newest}))
    source = (members, cards, names)
    if not members.keys or one.learnt_from == source:
        return one
    joined = one.root.said
    for process in members.facts[:_RANKS_READ]:
        joined = both(joined, process.said)
    visible = dict.fromkeys(
        text for process in members.facts[:_RANKS_READ] if (text := process.said.layout.visible_devices) is not None
    )
    asked = replace(
        layout.finished(joined.layout, cards=cards, processes=len(members.keys), thread_names=names),
        group=rendezvous.group(one.kind, one.root.place.slurm_job_id, joined.rendezvous, one.tenant),
        visible_devices=",".join(visible) if visible else None,
    )
    hook = next((process.slice_hook for process in newest if process.slice_hook), "")
    return replace(one, learnt_from=source, layout=asked, slice_hook=hook)


def _stuck(one: Launch, newest: list[Process], now_s: float) -> Launch:
    if not newest or any(process.state not in _STUCK for process in newest):
        return one if math.isnan(one.stuck_since_s) else replace(one, stuck_since_s=math.nan)
    return replace(one, stuck_since_s=now_s) if math.isnan(one.stuck_since_s) else one


def _crowded(assigned: Assigned, occupied: Occupancy) -> frozenset[Device]:
    """Return cards and slices on which several jobs, or a job and somebody unknown, have processes."""
    first: dict[Device, str] = {}
    crowded: set[Device] = {Device(uuid) for uuid in occupied.hidden}
    for key, uses in occupied.uses.items():
        name = assigned.launch_of.get(key, "")
        for use in uses:
            if first.setdefault(use.device, name) != name:
                crowded.add(use.device)
    return frozenset(crowded)


def _cards(keys: Iterable[Key], uses: Mapping[Key, tuple[Use, ...]], crowded: frozenset[Device]) -> tuple[JobCard, ...]:
    """Return the cards in use. A figure that one of the processes lacks is lacking for all of them together."""
    memory: dict[Device, float] = {}
    activity: dict[Device, float] = {}
    for key in keys:
        for use in uses.get(key, ()):
            memory[use.device] = memory.get(use.device, 0.0) + use.memory_bytes
            activity[use.device] = activity.get(use.device, 0.0) + use.sm_ratio
    return tuple(
        JobCard(
            device.uuid,
            device.mig_uuid,
            shared=device in crowded,
            memory_bytes=memory[device],
            sm_ratio=min(1.0, activity[device]),
        )
        for device in sorted(memory)
    )


def _job(one: Launch, members: Members, cards: tuple[JobCard, ...], seen: Seen) -> Job:
    place = one.root.place
    sampled = seen.tick.processes.cgroups
    return Job(
        gpu_job=one.gpu_job,
        kind=one.kind,
        tenant=one.tenant,
        cards=cards,
        processes=members.keys,
        relatives=members.relatives,
        cgroups=tuple(path for path in members.paths if path in sampled),
        container=naming.label_of(one.container),
        pod=place.pod_uid,
        namespace=one.namespace,
        slurm_job_id=place.slurm_job_id,
        user=one.user,
        start_wall_s=one.start_wall_s,
        first_seen_s=one.first_seen_s,
        layout=one.layout,
        tenant_rule=one.tenant_rule,
        workload=one.workload,
        slice_hook=one.slice_hook,
        stuck_since_s=one.stuck_since_s,
    )


def unattributed(cards: Mapping[str, float], processes: Iterable[Key], first_seen_s: float) -> Job:
    """Return the job of cards that work for somebody nobody can name.

    Args:
        cards: uuid -> memory of its unknown processes; NaN when unknown.
    """
    return Job(
        gpu_job=naming.UNATTRIBUTED,
        kind=JobKind.UNATTRIBUTED,
        tenant="unassigned",
        cards=tuple(JobCard(uuid, memory_bytes=memory) for uuid, memory in sorted(cards.items())),
        processes=tuple(sorted(processes)),
        first_seen_s=first_seen_s,
        layout=Layout(),
    )
