"""The text of /proc/PID/cgroup read as a place: container, pod, Slurm step, machine, unit or login session.

Version 1, version 2 and hybrid files, of the runtimes as they spell their paths. Three rules keep a tenant from
appearing as somebody else:

- An id is taken from the text or not at all, in the spelling of a known runtime.
- Below a service, and so below a user's own subtree (`user@UID.service`), only containers are recognised, and those of
  a user carry that user: groups may be named there at will, so a path that looks like Slurm's or the kubelet's proves
  nothing. The services of runtimes are the exception.
- Below a container only further containers are recognised, for the same reason. `chain` runs from the outermost,
  which the host's runtime vouches for, to the innermost, in which the process lives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpumon.model.job import JobKind

_ID = r"[0-9a-f]{64}"
_BARE = re.compile(rf"{_ID}")
_NAMED = re.compile(rf"(?P<prefix>[a-z]+(?:-[a-z]+)*)-(?P<id>{_ID})(?:\.scope)?")
_RUNTIMES = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "libpod": "podman",
    "libpod-payload": "podman",
}
_MONITORS = frozenset({"libpod-conmon", "crio-conmon"})
# What stands before a bare id tells the runtime; under a pod's folder it stays unknown.
_PARENTS = {
    "docker": "docker",
    "moby": "docker",
    "ecs": "docker",
    "default": "containerd",
    "k8s.io": "containerd",
    "libpod_parent": "podman",
}
# A cgroupfs path given to a runtime that uses systemd, or the reverse, is joined with colons: `slice:prefix:id`.
_COLON = re.compile(rf"(?P<slice>[^:]*):(?P<prefix>[a-z-]+):(?P<id>{_ID})")
_POD_SLICE = re.compile(
    r"(?:kubelet-)?kubepods(?:-(?P<qos>burstable|besteffort))?-pod(?P<uid>[0-9a-f]{32}|[0-9a-f]{8}(?:_[0-9a-f]{4}){3}"
    r"_[0-9a-f]{12})(?:\.slice)?"
)
_POD_FOLDER = re.compile(r"pod(?P<uid>[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_SLURM_SCOPE = re.compile(r"(?:[A-Za-z0-9.-]+_)?slurmstepd\.scope")
_SLURM_ROOT = re.compile(r"slurm(?:_[A-Za-z0-9.-]+)?")
_SLURM_JOB = re.compile(r"job_(?P<id>[0-9]{1,10})")
_SLURM_STEP = re.compile(r"step_(?P<id>[0-9]{1,10}|batch|extern|interactive)")
_SLURM_UID = re.compile(r"uid_(?P<uid>[0-9]{1,10})")
_USER_SLICE = re.compile(r"user-(?P<uid>[0-9]{1,10})\.slice")
_USER_MANAGER = re.compile(r"user@(?P<uid>[0-9]{1,10})\.service")
_SESSION = re.compile(r"session-(?P<id>[0-9a-z]{1,16})\.scope")
_MACHINE = re.compile(r"machine-(?P<name>.+)\.scope")
_NSPAWN = re.compile(r"systemd-nspawn@(?P<name>.+)\.service")
_LXC = re.compile(r"lxc\.payload(?:\.(?P<name>.+))?")
_LXC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_QEMU_UNIT = re.compile(r"(?:qemu-.+|.+\.libvirt-qemu|[0-9]{1,9}\.scope)")

# Services that run other people's work in groups of their own: a process left in such a group is the service itself.
_INFRASTRUCTURE = frozenset(
    "buildkit containerd cri-docker crio docker dockerd gpumon incus k0scontroller k0sworker k3s k3s-agent kubelet "
    "libvirtd lxc lxd nvidia-persistenced podman rke2-agent rke2-server slurmd slurmctld snap.docker.dockerd "
    "systemd-udevd virtqemud".split()
)
# Services whose children are people at work: without logind their processes stay in the service's group.
_DOORS = frozenset({"ssh", "sshd", "cron", "crond", "atd", "getty", "dropbear", "telnet", "xrdp"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands. Empty text and -1 mean: not said by the file."""

    kind: JobKind | None = None  # None: the host itself, a service of it, or not known
    runtime: str = ""  # docker, containerd, cri-o, podman, lxc, nspawn; "" unknown
    chain: tuple[str, ...] = ()  # container ids, outermost first
    pod_uid: str = ""  # as the kubelet prints it
    qos: str = ""  # guaranteed, burstable, besteffort
    slurm_job_id: str = ""
    slurm_step: str = ""
    machine: str = ""  # name of a virtual machine's group
    unit: str = ""  # systemd unit; of a host service too
    session: str = ""  # logind session
    owner_uid: int = -1  # whose subtree it is: rootless container, session, Slurm job
    path: str = ""  # the line that said most
    ambiguous: bool = False  # lines contradict each other: nothing is attributed

    @property
    def container_id(self) -> str:
        """The container in which the process lives; "" outside of containers."""
        return self.chain[-1] if self.chain else ""


@dataclass(slots=True)
class _Walk:
    """What has been understood of a path while going down its elements."""

    place: Place = field(default_factory=Place)
    in_slurm: bool = False
    in_pods: bool = False
    monitor: bool = False
    before: str = ""

    def note(self, **changes: object) -> None:
        self.place = replace(self.place, **changes)  # type: ignore[arg-type]  # names are Place's fields


def parse(text: str) -> Place:
    """Return the place that a /proc/PID/cgroup file tells of. Never raises.

    Lines that show "/" know nothing (their controller is not used). Lines that name different containers, pods or
    Slurm jobs contradict each other; a line that ends at the outer of two nested containers does not.
    """
    return _agreed([parse_path(path) for path in paths_of(text)])


def paths_of(text: str) -> tuple[str, ...]:
    """Return the distinct paths of a /proc/PID/cgroup file in its order."""
    paths: dict[str, None] = {}
    for line in text.split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[2].startswith("/"):
            paths.setdefault(parts[2])
    return tuple(paths)


def parse_path(path: str) -> Place:
    """Return the place that one control group path tells of."""
    walk = _Walk(Place(path=path))
    for element in _elements(path):
        _element(walk, element)
        walk.before = element
    place = walk.place
    if walk.monitor and not place.chain:
        return replace(place, kind=None, unit=place.unit or "conmon")
    return replace(place, kind=_kind(place))


def _elements(path: str) -> Iterable[str]:
    for element in path.split("/"):
        joined = _COLON.fullmatch(element)
        if joined:
            yield joined["slice"]
            yield f"{joined['prefix']}-{joined['id']}"
        elif element not in ("", ".", ".."):
            yield element.removesuffix(" (deleted)")


def _element(walk: _Walk, element: str) -> None:
    place = walk.place
    if _container(walk, element) or place.chain:
        return
    if place.session or (place.unit.endswith(".service") and _stem(place.unit) not in _INFRASTRUCTURE):
        return
    if not (_slurm(walk, element) or _pod(walk, element) or _machine(walk, element)):
        _unit(walk, element)


def _container(walk: _Walk, element: str) -> bool:
    named = _NAMED.fullmatch(element)
    if named and named["prefix"] in _MONITORS:
        walk.monitor = True
        return True
    if named and named["prefix"] in _RUNTIMES:
        walk.note(chain=(*walk.place.chain, named["id"]), runtime=_RUNTIMES[named["prefix"]])
        return True
    if _BARE.fullmatch(element):
        runtime = _PARENTS.get(walk.before, "docker" if walk.before.startswith("ecs") else "")
        walk.note(chain=(*walk.place.chain, element), runtime=runtime)
        return True
    name = _lxc_name(walk.before, element)
    if name:
        walk.note(chain=(*walk.place.chain, name), runtime="lxc")
    return bool(name)


def _lxc_name(before: str, element: str) -> str:
    payload = _LXC.fullmatch(element)
    name = payload["name"] if payload else element if before in ("lxc", "lxc.payload") else ""
    return name if name and _LXC_NAME.fullmatch(name) else ""


def _slurm(walk: _Walk, element: str) -> bool:
    daemon = _SLURM_SCOPE.fullmatch(element) and walk.before in ("", "system.slice")
    if daemon or (_SLURM_ROOT.fullmatch(element) and not walk.before):
        walk.in_slurm = True
        return True
    if not walk.in_slurm:
        return False
    if match := _SLURM_UID.fullmatch(element):
        walk.note(owner_uid=int(match["uid"]))
    elif match := _SLURM_JOB.fullmatch(element):
        walk.note(slurm_job_id=match["id"])
    elif match := _SLURM_STEP.fullmatch(element):
        walk.note(slurm_step=match["id"])
    return True


def _pod(walk: _Walk, element: str) -> bool:
    if element.removesuffix(".slice").endswith("kubepods"):
        walk.in_pods = True
        return True
    if match := _POD_SLICE.fullmatch(element):
        uid, qos = match["uid"].replace("_", "-"), match["qos"] or "guaranteed"
        walk.note(pod_uid=uid, qos=qos)
        return True
    if walk.in_pods and (match := _POD_FOLDER.fullmatch(element)):
        qos = walk.before if walk.before in ("burstable", "besteffort") else "guaranteed"
        walk.note(pod_uid=match["uid"], qos=qos)
        return True
    return walk.in_pods


def _machine(walk: _Walk, element: str) -> bool:
    if match := _MACHINE.fullmatch(element):
        if match["name"].startswith("qemu"):
            walk.note(machine=match["name"])
            return True
        runtime = "lxc" if match["name"].startswith("lxc\\x2d") else "nspawn"
        return _named_container(walk, match["name"].removeprefix("lxc\\x2d"), runtime)
    if match := _NSPAWN.fullmatch(element):
        return _named_container(walk, match["name"], "nspawn")
    if walk.before in ("machine", "machine.slice", "qemu.slice") and _QEMU_UNIT.fullmatch(element):
        walk.note(machine=element)
        return True
    return False


def _named_container(walk: _Walk, name: str, runtime: str) -> bool:
    if not _LXC_NAME.fullmatch(name):
        return False
    walk.note(chain=(name,), runtime=runtime)
    return True


def _unit(walk: _Walk, element: str) -> None:
    if match := _USER_SLICE.fullmatch(element):
        walk.note(owner_uid=int(match["uid"]))
    elif match := _SESSION.fullmatch(element):
        walk.note(session=match["id"])
    elif element.endswith((".service", ".socket", ".scope")):
        if match := _USER_MANAGER.fullmatch(element):
            walk.note(owner_uid=int(match["uid"]))
        walk.note(unit=element)


def is_host_service(place: Place) -> bool:
    """Return True for processes of a runtime, scheduler or manager itself: no container and no job."""
    return place.kind is None and bool(place.unit)


def _kind(place: Place) -> JobKind | None:
    if place.slurm_job_id:
        return JobKind.SLURM
    if place.pod_uid:
        return JobKind.POD
    if place.chain:
        return JobKind.CONTAINER
    if place.machine:
        return JobKind.VM
    if place.session or place.owner_uid >= 0:
        return JobKind.SESSION
    if place.unit.endswith(".service"):
        if _stem(place.unit) in _DOORS:
            return JobKind.SESSION
        return None if _stem(place.unit) in _INFRASTRUCTURE else JobKind.UNIT
    return None


def _stem(unit: str) -> str:
    return unit.rpartition(".")[0].partition("@")[0]


# A file's lines are asked in this order: what names a container says more than what names a unit.
_WEIGHT = {
    JobKind.SLURM: 6,
    JobKind.POD: 5,
    JobKind.CONTAINER: 4,
    JobKind.VM: 3,
    JobKind.SESSION: 2,
    JobKind.UNIT: 2,
    None: 0,
}


def _agreed(places: list[Place]) -> Place:
    """Return the place that says most, and whether another line contradicts it."""
    if not places:
        return Place()
    best = max(places, key=lambda place: (_WEIGHT[place.kind], len(place.chain), bool(place.unit or place.session)))
    for other in places:
        contradicts = (
            other.chain != best.chain[: len(other.chain)]
            or (other.pod_uid and other.pod_uid != best.pod_uid)
            or (other.slurm_job_id and other.slurm_job_id != best.slurm_job_id)
        )
        if contradicts:
            return Place(path=best.path, ambiguous=True)
    return best
