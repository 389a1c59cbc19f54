"""Jobs put together from launches: their cards, relatives, control groups and layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpumon.jobs import layout, naming, rendezvous
from gpumon.jobs.assigning import Assigned, Seen
from gpumon.jobs.devices import Device
from gpumon.jobs.facts import Facts, Key
from gpumon.jobs.launch import Launch, relatives
from gpumon.jobs.layout.parts import Said, both
from gpumon.jobs.occupancy import Occupancy, Use
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.process import Process

# Ranks of one launch say the same; the first ones are enough to know how it was launched.
_RANKS_READ = 8
_STUCK = frozenset({"Z", "X", "D"})


@dataclass(frozen=True, slots=True)
class _Members:
    """The processes of one job."""

    keys: tuple[Key, ...]  # GPU processes
    facts: tuple[Facts, ...]  # of these
    newest: tuple[Process, ...]  # the newest readings of those that procfs shows
    relatives: tuple[Facts, ...]


def assemble(assigned: Assigned, seen: Seen, occupied: Occupancy) -> tuple[dict[str, Launch], tuple[Job, ...]]:
    """Return the launches with what was learnt of them, and their jobs, oldest first."""
    members: dict[str, list[Key]] = {name: [] for name in assigned.launches}
    for key, name in assigned.launch_of.items():
        members[name].append(key)
    processes = {process.pid: process for process in seen.tick.processes.processes}
    others = relatives(seen.shown, assigned.launch_of, assigned.by_root)
    crowded = _crowded(assigned, occupied)
    launches: dict[str, Launch] = {}
    jobs: list[Job] = []
    for name, one in assigned.launches.items():
        keys = sorted(members[name], key=lambda key: (key[1], key[0]))
        facts = [seen.facts[key] for key in keys]
        newest = [processes[key[0]] for key in keys if key[0] in processes and processes[key[0]].start_ticks == key[1]]
        learnt = _stuck(_learnt(one, facts), newest, seen.tick.mono_s)
        launches[name] = learnt
        people = _Members(tuple(keys), tuple(facts), tuple(newest), tuple(others.get(name, ())))
        jobs.append(_job(learnt, people, _cards(keys, occupied.uses, crowded), seen))
    jobs.sort(key=lambda job: (job.first_seen_s, job.gpu_job))
    return launches, tuple(jobs)


def _learnt(one: Launch, facts: list[Facts]) -> Launch:
    """Return the launch with its layout, joined again only when one of its sources says something new."""
    said_by = (one.root.said, *(process.said for process in facts[:_RANKS_READ]))
    if not facts or (
        len(said_by) == len(one.said_by) and all(a is b for a, b in zip(said_by, one.said_by, strict=True))
    ):
        return one
    joined = Said()
    for said in said_by:
        joined = both(joined, said)
    visible = dict.fromkeys(
        said.layout.visible_devices for said in said_by[1:] if said.layout.visible_devices is not None
    )
    group = rendezvous.group(one.kind, one.root.place.slurm_job_id, joined.rendezvous, one.tenant)
    asked = replace(joined.layout, group=group, visible_devices=",".join(visible) if visible else None)
    return replace(one, said_by=said_by, layout=asked, nodes=joined.rendezvous.nodes)


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


def _job(one: Launch, members: _Members, cards: tuple[JobCard, ...], seen: Seen) -> Job:
    place = one.root.place
    names = " ".join({process.thread_names for process in members.newest})
    asked = layout.finished(one.layout, cards=len(cards), processes=len(members.keys), thread_names=names)
    paths = dict.fromkeys(path for process in (*members.facts, *members.relatives) for path in process.paths)
    sampled = seen.tick.processes.cgroups
    return Job(
        gpu_job=one.gpu_job,
        kind=one.kind,
        tenant=one.tenant,
        cards=cards,
        processes=members.keys,
        relatives=tuple(process.key for process in members.relatives),
        cgroups=tuple(path for path in paths if path in sampled),
        container=naming.label_of(one.container),
        pod=place.pod_uid,
        namespace=one.namespace,
        slurm_job_id=place.slurm_job_id,
        user=one.user,
        start_wall_s=one.start_wall_s,
        first_seen_s=one.first_seen_s,
        layout=asked,
        tenant_rule=one.tenant_rule,
        workload=one.workload,
        slice_hook=next((process.slice_hook for process in members.newest if process.slice_hook), ""),
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
