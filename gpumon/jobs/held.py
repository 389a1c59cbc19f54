"""Cards that were given: to a job beyond those it uses, and to containers that run nothing on them yet.

The kernel's word comes first (device files bound into the container, `Process.gpu_minors`), then the container
runtime's. Without either, nothing is known and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpumon.jobs import naming, tenants
from gpumon.jobs.assigning import CLOCK_TICKS_PER_SECOND, Seen, host_containers
from gpumon.jobs.cgroup import Place
from gpumon.jobs.devices import Device, by_minor, visible
from gpumon.jobs.facts import Facts, Key
from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.job import Job, JobCard, JobKind
from gpumon.model.process import Container


@dataclass(slots=True)
class _Given:
    """One container and the devices it was given."""

    place: Place
    kind: JobKind
    devices: dict[Device, None] = field(default_factory=dict)
    first: Facts | None = None  # its oldest process that is shown
    slice_hook: str = ""


def with_given(jobs: tuple[Job, ...], seen: Seen, before: tuple[Job, ...]) -> tuple[Job, ...]:
    """Return the jobs with the cards their containers were given, and a job for each container without one.

    Cards that a job of another container uses are not counted as this one's to hold: where every container is given
    every card, who uses a card has it.
    """
    given = _given(seen)
    if not given:
        return jobs
    known = {job.gpu_job: job for job in before}
    used = {(card.uuid, card.mig_uuid) for job in jobs for card in job.cards}
    jobs_in: dict[str, list[int]] = {}
    for index, job in enumerate(jobs):
        for outermost in _containers(job, seen):
            jobs_in.setdefault(outermost, []).append(index)
    result = list(jobs)
    for container_id, one in given.items():
        idle = tuple(
            JobCard(device.uuid, device.mig_uuid, used=False)
            for device in one.devices
            if (device.uuid, device.mig_uuid) not in used
        )
        indices = jobs_in.get(container_id, [])
        for index in indices:
            own = idle if len(indices) == 1 else ()  # of several jobs nobody can say whose the idle cards are
            result[index] = replace(result[index], allocated=len(one.devices), cards=(*result[index].cards, *own))
        if not indices and idle:
            result.append(_held(seen, one, idle, known))
    return tuple(result)


def _containers(job: Job, seen: Seen) -> frozenset[str]:
    keys: Iterable[Key] = (*job.processes, *job.relatives[:1])
    return frozenset(
        seen.facts[key].place.chain[0] for key in keys if key in seen.facts and seen.facts[key].place.chain
    )


def _given(seen: Seen) -> dict[str, _Given]:
    """Return the containers that were given cards, by the outermost container's id."""
    tick = seen.tick
    found: dict[str, _Given] = {}
    named = by_minor(tick.cards)
    if not tick.processes.foreign_pids:
        for process in tick.processes.processes:
            if isinstance(process.gpu_minors, Fault) or not process.gpu_minors:
                continue
            facts = seen.shown.get(process.pid)
            if facts is None or not facts.place.chain:
                continue
            devices = _by_minors(process.gpu_minors, named)
            if devices:
                one = found.setdefault(facts.place.chain[0], _Given(facts.place, facts.kind))
                one.devices.update(dict.fromkeys(devices))
                one.slice_hook = one.slice_hook or process.slice_hook
                if one.first is None or facts.start_ticks < one.first.start_ticks:
                    one.first = facts
    for container in tick.processes.containers.values():
        if container.container_id not in found:
            devices = _of_container(container, tick.cards, named)
            if devices:
                place = Place(
                    JobKind.CONTAINER, container.runtime, (container.container_id,), owner_uid=container.owner_uid
                )
                found[container.container_id] = _Given(place, JobKind.CONTAINER, dict.fromkeys(devices))
    return found


def _by_minors(minors: frozenset[int], named: Mapping[int, Card]) -> tuple[Device, ...]:
    """Return whole cards; a card in slices is given slice by slice, and which one the device file does not tell."""
    return tuple(
        Device(named[minor].identity.uuid)
        for minor in sorted(minors)
        if minor in named and not named[minor].mig_enabled
    )


def _of_container(container: Container, cards: tuple[Card, ...], named: Mapping[int, Card]) -> tuple[Device, ...]:
    if not isinstance(container.gpu_minors, Fault) and container.gpu_minors:
        return _by_minors(container.gpu_minors, named)
    if container.gpu_request is None:
        return ()
    selection = visible(container.gpu_request, cards)
    return selection.devices if selection.known else ()


def _held(seen: Seen, one: _Given, cards: tuple[JobCard, ...], known: dict[str, Job]) -> Job:
    container = naming.shown_container(one.place, host_containers(seen))
    name = naming.of_container(one.kind, one.place, container)
    before = known.get(name)
    if before is not None:
        return replace(before, cards=cards, allocated=len(one.devices))
    table = seen.tick.processes
    owner = one.first.owner_uid if one.first is not None else one.place.owner_uid
    evidence = tenants.evidence(one.kind, one.place, owner, containers=table.containers, users=table.users, first=None)
    tenant, rule = tenants.decide(evidence, seen.settings.tenants)
    start_ticks = one.first.start_ticks if one.first is not None else None
    boot_s = seen.tick.node.boot_wall_s
    return Job(
        gpu_job=name,
        kind=one.kind,
        tenant=tenant,
        cards=cards,
        processes=(),
        relatives=(one.first.key,) if one.first is not None else (),
        container=naming.label_of(container),
        pod=one.place.pod_uid,
        namespace=naming.shown_namespace(tenants.namespace_of(evidence)),
        user=evidence.user,
        allocated=len(one.devices),
        start_wall_s=boot_s + start_ticks / CLOCK_TICKS_PER_SECOND if start_ticks is not None else float("nan"),
        first_seen_s=seen.tick.mono_s,
        tenant_rule=rule,
        slice_hook=one.slice_hook,
    )
