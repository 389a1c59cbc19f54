"""What a client may see: everything, or the jobs of some tenants and nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from dataclasses import dataclass

from gpumon.model.samples import CardTick, SamplerStats
from gpumon.model.topology import NodeFacts, Topology
from gpumon.model.view import CardView, JobView, NodeView


@dataclass(frozen=True, slots=True)
class Scope:
    """`tenants` None: the whole node."""

    tenants: frozenset[str] | None = None


EVERYTHING = Scope()


def narrowed(view: NodeView, scope: Scope) -> NodeView:
    """Return the view as the scope may see it.

    For tenants: their jobs, the cards these jobs hold alone, and the bare identity of cards they share. Nothing of the
    node's other cards and jobs, shared links, operators' findings, or of gpumon itself.
    """
    tenants = scope.tenants
    if tenants is None:
        return view
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for job in view.jobs:
        if math.isnan(job.ended_s):
            for card in job.job.cards:
                owners[card.uuid].add(job.job.tenant)
    return dataclasses.replace(
        view,
        node=_bare(view.node),
        topology=Topology(),
        cards=tuple(
            card if owners[card.tick.uuid] <= tenants else _identity_only(card)
            for card in view.cards
            if owners[card.tick.uuid] & tenants
        ),
        uplinks=(),
        jobs=tuple(_for_customer(job) for job in view.jobs if job.job.tenant in tenants),
        findings=(),
        gpus_expected=0,
        sampler=SamplerStats(),
    )


def _bare(node: NodeFacts) -> NodeFacts:
    return NodeFacts(
        hostname=node.hostname,
        virtualization="",
        kernel="",
        driver_version="",
        cpu_count=0,
        simulated=node.simulated,
        standing="",
        host_pids=False,
        boot_wall_s=math.nan,
    )


def _identity_only(view: CardView) -> CardView:
    tick = view.tick
    return CardView(view.card, CardTick(tick.uuid, up=tick.up, fault=tick.fault, last_sample_s=tick.last_sample_s))


def _for_customer(view: JobView) -> JobView:
    findings = tuple(finding for finding in view.verdict.findings if finding.audience == "customer")
    return dataclasses.replace(view, verdict=dataclasses.replace(view.verdict, findings=findings))
