"""gpu_job: a name made of facts that outlive gpumon, the same after a restart, with no text a tenant chose.

Form: `kind:place:start`, where start is the launch's root in clock ticks since boot (field 22 of its stat file), so
two launches in one place differ and a step of the wall clock changes nothing. A place whose name is text (a unit, an
LXC container, a virtual machine) and a container of a user's own runtime go in as a hash.
"""

from __future__ import annotations

import hashlib
import re

from gpumon.jobs.cgroup import Place
from gpumon.jobs.facts import Facts
from gpumon.model.job import JobKind

UNATTRIBUTED = "unattributed:node"
_PATTERN = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")
_HEX = re.compile(r"[0-9a-f]{64}")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
SHORT = 12  # characters of a container id, as docker ps prints it


def hashed(*words: str) -> str:
    """Return 12 hexadecimal digits that stand for the words."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:SHORT]


def is_hex(container: str) -> bool:
    """Return True for a full container id; names (LXC, nspawn) are none."""
    return bool(_HEX.fullmatch(container))


def is_hosts_own(place: Place) -> bool:
    """Return True when the host's own runtime started the outermost container, rather than a user's."""
    return place.owner_uid < 0 or bool(place.slurm_job_id)


def shown_container(place: Place, host_ids: frozenset[str]) -> str:
    """Return the container id to show, "" where showing it could make one container pass for another.

    Who may create control groups (a nested runtime, a user's own) may name one after somebody else's container. An
    inner or a user's id that the host's runtime also has is not shown.
    """
    if not place.chain:
        return ""
    outermost, innermost = place.chain[0], place.chain[-1]
    if not is_hosts_own(place):
        return "" if innermost in host_ids else innermost
    return outermost if innermost != outermost and innermost in host_ids else innermost


def label_of(container: str) -> str:
    """Return the id as `gpumon_job_info{container}` carries it: 12 digits of a hash, else the name."""
    return container[:SHORT] if is_hex(container) else container


def shown_namespace(text: str) -> str:
    """Return a Kubernetes namespace, "" for text that cannot be one."""
    return text if _NAMESPACE.fullmatch(text) else ""


def of_launch(kind: JobKind, root: Facts, container: str) -> str:
    """Return the name of a launch.

    Args:
        container: the id it is shown with, see `shown_container`.
    """
    return f"{_place(kind, root, container)}:{root.start_ticks}"


def of_container(kind: JobKind, place: Place, container: str) -> str:
    """Return the name of a container that holds cards and runs nothing on them."""
    return f"{kind.value}:{_container(place, container)}:held"


def of_overflow(kind: JobKind, root: Facts, container: str) -> str:
    """Return the name under which a place's launches beyond the cap are folded."""
    return f"{_place(kind, root, container)}:more"


def is_valid(name: str) -> bool:
    """Return True for a name that may be a gpu_job."""
    return bool(_PATTERN.fullmatch(name))


def _place(kind: JobKind, root: Facts, container: str) -> str:
    place = root.place
    if kind is JobKind.SLURM:
        return f"slurm:{place.slurm_job_id}.{place.slurm_step or 'job'}"
    if kind in (JobKind.CONTAINER, JobKind.POD):
        return f"{kind.value}:{_container(place, container)}"
    if kind is JobKind.UNIT:
        return f"unit:{hashed(place.unit)}"
    if kind is JobKind.VM:
        return f"vm:{hashed(place.machine)}"
    return f"session:{root.session}"


def _container(place: Place, container: str) -> str:
    if is_hex(container) and is_hosts_own(place):
        return container[:SHORT]
    return hashed(str(place.owner_uid), place.pod_uid, *place.chain)
