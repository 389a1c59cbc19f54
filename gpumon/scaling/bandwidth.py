"""The rate a set of cards sustains in a collective: learned from jobs that exchange, expected for sets not yet seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gpumon.analysis.evidence import CardEvidence, LinkEvidence
from gpumon.model.past import Run, SetRate
from gpumon.model.topology import Topology
from gpumon.model.verdict import JobClass, Verdict
from gpumon.scaling.cards import NVLINK, PCIE

Rates = Mapping[tuple[tuple[str, ...], str], SetRate]

# Collectives fill both directions in the same instant; copies to and from the host do so in turn.
SAME_INSTANT = 0.6
LEAST_BYTES_PER_SECOND = 50e6  # what moves less is control traffic
LEAST_WINDOW_S = 10.0
# A rate below this share of what a set has carried is another job's, and lowers nothing.
TOGETHER = 0.6


def observed(uuids: tuple[str, ...], looks: Iterable[CardEvidence], verdict: Verdict) -> dict[str, float]:
    """Return, by link, the rate that a job's cards sustain in its collectives, bytes per second.

    The slowest card counts, since all go at its pace. Where bursts are shorter than what one look at the link covers
    the mean stands in: the set carries at least that.
    """
    seen = [look for look in looks if look.uuid in uuids and look.up]
    if len(uuids) < 2 or len(seen) != len(uuids) or not verdict.window_s >= LEAST_WINDOW_S:
        return {}
    if verdict.job_class in (JobClass.IDLE, JobClass.HUNG, JobClass.HOST):
        return {}
    found = {}
    nvlinks = [look.nvlink for look in seen if look.nvlink is not None]
    for name, links in ((PCIE, [look.pcie for look in seen]), (NVLINK, nvlinks)):
        rates = [_rate(link) for link in links]
        if len(rates) == len(uuids) and all(rate >= LEAST_BYTES_PER_SECOND for rate in rates):
            least, most = min(rates), max(rates)
            if least >= TOGETHER * most:
                found[name] = least
    return found


def _rate(link: LinkEvidence) -> float:
    if not link.same_instant >= SAME_INSTANT:
        return math.nan
    return link.plateau if link.humped else link.rate


def relative(
    run: Run, best: tuple[str, ...], *, detail: str, topology: Topology, rates: Rates
) -> tuple[float, float, float]:
    """Return the rate of a smaller set over that of the run's set: as likely, at least, at most.

    Args:
        best: the smaller set's cards.
    """
    if detail == "latency":
        return 0.0, 0.0, 0.0
    for link in (NVLINK, PCIE):
        whole, part = rates.get((run.uuids, link)), rates.get((tuple(sorted(best)), link))
        if whole is not None and part is not None:
            # Both are at least what they carry; a smaller set of the same cards is not slower than the whole.
            ratio = max(1.0, part.bytes_per_second / whole.bytes_per_second)
            return ratio, 1.0, ratio * 1.1
    most = _contention(run.uuids, topology) / max(1.0, _contention(best, topology))
    if detail == "uplink":
        return max(1.0, most), 1.0, max(1.0, most)
    return 1.0, 1.0, max(1.0, most)


def _contention(uuids: tuple[str, ...], topology: Topology) -> float:
    """Return by how many cards the fullest shared link is used; all of them where the tree is unknown."""
    mine = set(uuids)
    if topology.flat or not topology.paths:
        return float(len(mine))
    below = [len(mine & set(uplink.uuids)) for uplink in topology.uplinks]
    sockets: dict[int, int] = {}
    for path in topology.paths:
        if path.uuid in mine:
            sockets[path.numa_node] = sockets.get(path.numa_node, 0) + 1
    return float(max([*below, *sockets.values()], default=1))
