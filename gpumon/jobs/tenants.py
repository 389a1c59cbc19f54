"""Whose job it is: the config's ordered rules over what the host vouches for.

Text from a container may select an entry of the closed list, never make one. What a process may choose for itself is
not asked: inside a container a process may take any user id, so `unix_user` there means the owner of a rootless
container. SLURM_JOB_ACCOUNT is taken from the process that Slurm itself started; a user may still set it, so where
users are not trusted a rule by unix_user is the safe one (docs/jobs.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.jobs.cgroup import Place
from gpumon.model.fault import Fault
from gpumon.model.job import JobKind
from gpumon.model.process import Container, Process
from gpumon.model.settings import TenantRule, TenantSettings

UNASSIGNED = "unassigned"
NAMESPACE_LABEL = "io.kubernetes.pod.namespace"
# Patterns are the operator's, the texts a tenant's: what is searched is short.
_LONGEST_TEXT = 512


@dataclass(frozen=True, slots=True)
class Evidence:
    """What rules may look at."""

    place: Place
    container: Container | None = None  # the host's runtime's word on the outermost container
    user: str = ""
    account: str = ""


def evidence(
    kind: JobKind,
    place: Place,
    owner_uid: int,
    *,
    containers: Mapping[str, Container],
    users: Mapping[int, str],
    first: Process | None,
) -> Evidence:
    """Gather what rules may look at.

    Args:
        first: the process that a Slurm step began with.
    """
    account = ""
    if kind is JobKind.SLURM and first is not None and not isinstance(first.environ, Fault):
        account = first.environ.get("SLURM_JOB_ACCOUNT", "")
    return Evidence(place, container_of(place, containers), users.get(owner_uid, ""), account)


def container_of(place: Place, containers: Mapping[str, Container]) -> Container | None:
    """Return what the runtime that started the outermost container says of it.

    An id below a user's subtree is never looked up in the host's runtime, nor the other way round: a user may name a
    group after somebody else's container.
    """
    if not place.chain:
        return None
    container = containers.get(place.chain[0])
    owner = -1 if place.slurm_job_id else place.owner_uid
    return container if container is not None and container.owner_uid == owner else None


def decide(seen: Evidence, settings: TenantSettings) -> tuple[str, str]:
    """Return the tenant and the rule that decided, as a person would name it ("" when none did)."""
    for number, rule in enumerate(settings.rules, start=1):
        if rule.tenant in settings.tenants and _matches(rule, seen):
            return rule.tenant, f"rule {number}: {described(rule)}"
    return UNASSIGNED, ""


def needs_container(settings: TenantSettings) -> bool:
    """Return True when a rule asks what only the container runtime knows."""
    return any(rule.container_label or rule.container_name or rule.namespace for rule in settings.rules)


def described(rule: TenantRule) -> str:
    """Return a rule's patterns as they stand in the config."""
    parts = []
    if rule.container_label:
        parts.append(f"container_label {rule.container_label[0]}={rule.container_label[1]}")
    if rule.container_name:
        parts.append(f"container_name {rule.container_name.pattern}")
    for name in ("namespace", "slurm_account", "unix_user"):
        if value := getattr(rule, name):
            parts.append(f"{name} {value}")
    if rule.cgroup:
        parts.append(f"cgroup {rule.cgroup.pattern}")
    return ", ".join(parts)


def _matches(rule: TenantRule, seen: Evidence) -> bool:
    """Every given pattern matches, and at least one is given."""
    checks: list[bool] = []
    container = seen.container
    if rule.container_label:
        key, value = rule.container_label
        checks.append(container is not None and container.labels.get(key) == value)
    if rule.container_name:
        name = container.name[:_LONGEST_TEXT] if container is not None else None
        checks.append(name is not None and rule.container_name.search(name) is not None)
    if rule.namespace:
        checks.append(namespace_of(seen) == rule.namespace)
    if rule.slurm_account:
        checks.append(seen.account == rule.slurm_account)
    if rule.unix_user:
        checks.append(seen.user == rule.unix_user)
    if rule.cgroup:
        checks.append(rule.cgroup.search(seen.place.path[:_LONGEST_TEXT]) is not None)
    return bool(checks) and all(checks)


def namespace_of(seen: Evidence) -> str:
    """Return the pod's namespace as the kubelet labelled its container; "" for a container that is in no pod."""
    if not seen.place.pod_uid or seen.container is None:
        return ""
    return seen.container.labels.get(NAMESPACE_LABEL, "")
