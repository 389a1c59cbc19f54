"""Every GPU process gets its launch: the old ones keep theirs, the new ones find theirs or begin one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from gpumon.jobs import launch, naming, rendezvous, tenants, workload
from gpumon.jobs.cgroup import Place
from gpumon.jobs.facts import Facts, Key, Scope
from gpumon.jobs.launch import Launch
from gpumon.jobs.layout.parts import Rendezvous, both
from gpumon.jobs.memory import Memory
from gpumon.model.job import JobKind
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings

# Launches of one container, step or user that get a name of their own within KEEP_BIRTHS_S. More than one start every
# ten seconds is no work but a flood; the rest is folded into one job, so that series stay bounded.
MOST_LAUNCHES = 32
KEEP_BIRTHS_S = 300.0
# A name that the container runtime does not give within this time is done without; the tenant stays what it then is.
WAIT_FOR_NAMES_S = 10.0
CLOCK_TICKS_PER_SECOND = 100  # USER_HZ, the same on every architecture CUDA runs on


@dataclass(frozen=True, slots=True)
class Seen:
    """What one tick shows."""

    tick: Tick
    settings: Settings
    facts: Mapping[Key, Facts]  # of processes shown now and of remembered ones
    shown: Mapping[int, Facts]  # by pid, shown by procfs now and read
    unread: frozenset[int]  # pids shown but not read yet
    on_cards: tuple[Key, ...]  # GPU processes


@dataclass(slots=True)
class Assigned:
    """Launches while they are put together, and their GPU processes."""

    launches: dict[str, Launch]
    launch_of: dict[Key, str]
    births: dict[Scope, tuple[float, ...]]
    last_gpu_s: dict[str, float]
    waiting: dict[Key, float] = field(default_factory=dict)
    by_root: dict[Key, str] = field(default_factory=dict)
    awaited: bool = False  # a launcher without ranks is kept for a while
    host_containers: frozenset[str] | None = None  # read once a tick, when a new launch needs it


def assign(memory: Memory, seen: Seen) -> Assigned:
    """Return the launches that live, and which GPU process belongs to which."""
    now_s = seen.tick.mono_s
    on_cards = frozenset(seen.on_cards)
    launch_of = {key: name for key, name in memory.launch_of.items() if key in on_cards}
    living = frozenset(launch_of.values())
    last_gpu_s = dict.fromkeys(living, now_s)
    kept: dict[str, Launch] = {}
    for name, one in memory.launches.items():
        if name not in living:
            if not _is_awaited(one, seen.shown, now_s - memory.last_gpu_s[name]):
                continue
            last_gpu_s[name] = memory.last_gpu_s[name]
        kept[name] = one
    assigned = Assigned(kept, launch_of, _recent(memory.births, now_s), last_gpu_s, awaited=len(kept) > len(living))
    assigned.by_root = {root: name for name, one in kept.items() for root in one.roots}
    new = [seen.facts[key] for key in seen.on_cards if key not in launch_of and key in seen.facts]
    for process in sorted(new, key=lambda one: (one.start_ticks, one.pid)):
        if process.kind is not JobKind.UNATTRIBUTED:
            _find(memory, seen, assigned, process)
    return assigned


def _recent(births: Mapping[Scope, tuple[float, ...]], now_s: float) -> dict[Scope, tuple[float, ...]]:
    recent = {
        scope: tuple(time_s for time_s in times if now_s - time_s < KEEP_BIRTHS_S) for scope, times in births.items()
    }
    return {scope: times for scope, times in recent.items() if times}


def _is_awaited(one: Launch, shown: Mapping[int, Facts], since_s: float) -> bool:
    root = shown.get(one.root.pid)
    alive = root is not None and root.key == one.root.key
    return alive and one.restarts_ranks and since_s < launch.WITHOUT_RANKS_S


def _find(memory: Memory, seen: Seen, assigned: Assigned, process: Facts) -> None:
    """Put one new GPU process into its launch; it waits while its ancestors are unread or its container unnamed."""
    since_s = memory.waiting.get(process.key, seen.tick.mono_s)
    root = launch.root_of(process, seen.shown, seen.unread)
    if root is None:
        assigned.waiting[process.key] = since_s
        return
    name = assigned.by_root.get(root.key)
    if name is None:
        if _is_unnamed(seen, root.place) and seen.tick.mono_s - since_s < WAIT_FOR_NAMES_S:
            assigned.waiting[process.key] = since_s
            return
        name = _join_or_begin(seen, assigned, process, root)
        assigned.by_root[root.key] = name
    assigned.launch_of[process.key] = name
    assigned.last_gpu_s[name] = seen.tick.mono_s


def _is_unnamed(seen: Seen, place: Place) -> bool:
    """Return True while a tenant's rule needs what the container runtime is being asked for."""
    pending = seen.tick.processes.containers_pending
    return bool(place.chain) and place.chain[0] in pending and tenants.needs_container(seen.settings.tenants)


def _join_or_begin(seen: Seen, assigned: Assigned, process: Facts, root: Facts) -> str:
    table = seen.tick.processes
    first = _first_of_step(process, seen.shown)
    # The daemon that starts a step's tasks is root's; the job is theirs.
    owner_uid = first.owner_uid if root.kind is JobKind.SLURM else root.owner_uid
    evidence = tenants.evidence(
        root.kind,
        root.place,
        owner_uid,
        containers=table.containers,
        users=table.users,
        first=first.source,
    )
    tenant, rule = tenants.decide(evidence, seen.settings.tenants)
    said = both(root.said, process.said)
    meeting = rendezvous.meeting(root.scope, owner_uid, said.rendezvous, tenant)
    ranks = (said.rendezvous.rank, said.rendezvous.node_rank)
    partner = _partner(seen, assigned, meeting, ranks)
    if partner is not None:
        assigned.launches[partner.gpu_job] = replace(partner, roots={**partner.roots, root.key: ranks})
        return partner.gpu_job
    container = naming.shown_container(root.place, _host_containers(seen, assigned))
    name = _name(seen, assigned, root, container)
    if name not in assigned.launches:
        assigned.launches[name] = Launch(
            gpu_job=name,
            kind=root.kind,
            tenant=tenant,
            tenant_rule=rule,
            root=root,
            container=container,
            namespace=naming.shown_namespace(tenants.namespace_of(evidence)),
            user=evidence.user,
            start_wall_s=seen.tick.node.boot_wall_s + root.start_ticks / CLOCK_TICKS_PER_SECOND,
            first_seen_s=seen.tick.mono_s,
            meeting=meeting,
            workload=_workload(root, process, tenant, seen.settings.workload_salt),
            roots={root.key: ranks},
        )
    return name


def _host_containers(seen: Seen, assigned: Assigned) -> frozenset[str]:
    """Return the ids of containers that the host itself runs, as far as they are known."""
    if assigned.host_containers is None:
        assigned.host_containers = host_containers(seen)
    return assigned.host_containers


def host_containers(seen: Seen) -> frozenset[str]:
    """Return the ids of containers that the host itself runs, as far as they are known."""
    places = (one.place for one in seen.shown.values())
    outermost = {place.chain[0] for place in places if place.chain and naming.is_hosts_own(place)}
    return frozenset(outermost | seen.tick.processes.containers.keys())


def _name(seen: Seen, assigned: Assigned, root: Facts, container: str) -> str:
    births = assigned.births.get(root.scope, ())
    if len(births) >= MOST_LAUNCHES:
        return naming.of_overflow(root.kind, root, container)
    assigned.births[root.scope] = (*births, seen.tick.mono_s)
    return naming.of_launch(root.kind, root, container)


def _workload(root: Facts, process: Facts, tenant: str, salt: str) -> str:
    """Return the workload's identity: what a launcher starts, else the program of the GPU process."""
    command = root.said.inner or process.said.inner
    return workload.identity(command, process.source.folder, tenant, salt) if command is not None else ""


def _first_of_step(process: Facts, shown: Mapping[int, Facts]) -> Facts:
    """Return the process that a Slurm step began with: the topmost one below its daemon."""
    current = process
    for _ in range(64):
        parent = shown.get(current.ppid)
        if parent is None or parent.scope != process.scope or parent.source.comm == "slurmstepd":
            break
        current = parent
    return current


def _partner(
    seen: Seen, assigned: Assigned, meeting: tuple[Hashable, ...] | None, ranks: tuple[int, int]
) -> Launch | None:
    """Return the launch whose ranks these are to meet, unless one that lives there claims the same rank."""
    if meeting is None or ranks == (Rendezvous().rank, Rendezvous().node_rank):
        return None
    for one in assigned.launches.values():
        if one.meeting == meeting and ranks not in _living_ranks(seen, one):
            return one
    return None


def _living_ranks(seen: Seen, one: Launch) -> frozenset[tuple[int, int]]:
    living = frozenset(seen.on_cards)
    return frozenset(
        ranks
        for root, ranks in one.roots.items()
        if root in living or ((facts := seen.shown.get(root[0])) is not None and facts.key == root)
    )
