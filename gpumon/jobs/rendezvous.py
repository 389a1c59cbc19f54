"""When separate processes are one launch because their ranks meet, and when jobs of several nodes are one group."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Hashable

from gpumon.jobs.facts import Scope
from gpumon.jobs.layout.parts import Rendezvous
from gpumon.jobs.tenants import UNASSIGNED
from gpumon.model.job import JobKind

# Docker's default bridge has this range on every host, so an address in it says nothing about which host.
_EVERYWHERE = ipaddress.ip_network("172.17.0.0/16")


def is_local(address: str) -> bool:
    """Return True for an address that only means "here": loopback, unspecified, link-local, Docker's bridge."""
    if not address or address.lower() in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return (
        parsed.is_loopback
        or parsed.is_unspecified
        or parsed.is_link_local
        or (parsed.version == 4 and parsed in _EVERYWHERE)
    )


def meeting(scope: Scope, owner_uid: int, rendezvous: Rendezvous, tenant: str) -> tuple[Hashable, ...] | None:
    """Return what launches must share to be one, None when this launch meets nobody.

    Within one place (container, step, session) the port and the world size are enough: only one launch can listen on
    it. Across places the address must be one that means the same everywhere, and both must be the same person's: an
    assigned tenant, or one user of the host. A stranger can copy an address, but not that.
    """
    if rendezvous.port <= 0 or rendezvous.world_size <= 1:
        return None
    where = (rendezvous.port, rendezvous.world_size, rendezvous.nodes)
    if is_local(rendezvous.address):
        return ("here", scope, *where)
    owner: Hashable = tenant if tenant != UNASSIGNED else owner_uid if owner_uid >= 0 else scope
    return ("address", owner, rendezvous.address.lower(), *where)


def group(kind: JobKind, slurm_job_id: str, rendezvous: Rendezvous, tenant: str) -> str:
    """Return the name that joins a job's parts over nodes; "" for a job of one node.

    Every node computes the same from what its own ranks were told. Loopback never makes a group.
    """
    if kind is JobKind.SLURM:
        return "" if rendezvous.nodes == 1 else f"slurm-{slurm_job_id}"
    if rendezvous.nodes <= 1 or is_local(rendezvous.address):
        return ""
    text = f"{rendezvous.address.lower()}\0{rendezvous.port}\0{rendezvous.nodes}\0{tenant}"
    return "rdzv-" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
