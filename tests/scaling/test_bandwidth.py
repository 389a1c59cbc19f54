"""Rates of sets of cards: what counts as sustained, and what is expected of a smaller set."""

from __future__ import annotations

import dataclasses
import math

import pytest

from gpumon.analysis.evidence import CardEvidence
from gpumon.model.topology import CardPath, LinkHop, Topology, Uplink
from gpumon.model.verdict import JobClass, Verdict
from gpumon.scaling.bandwidth import observed, relative
from tests.history.made import rate, run, uuids

from .test_follow import look

FOUR = uuids(4)
VERDICT = Verdict(JobClass.COMMUNICATION, "bandwidth", window_s=40.0)
HOP = LinkHop("0000:01:00.0", "", 4, 16, 4, 16)
PATHS = tuple(CardPath(uuid, "", (), f"pci{n // 4}", n // 4) for n, uuid in enumerate(uuids(8)))
SWITCHED = Topology(PATHS, tuple(Uplink(f"b{n}", uuids(8)[2 * n : 2 * n + 2], HOP) for n in range(4)))


def looks(*rates: float, **changes: object) -> list[CardEvidence]:
    """Return looks at the first cards, whose links level off at these rates."""
    made = [look(uuid, rate=one) for uuid, one in zip(FOUR, rates, strict=False)]
    return [
        dataclasses.replace(one, pcie=dataclasses.replace(one.pcie, **changes))  # type: ignore[arg-type]
        for one in made
    ]


def test_the_slowest_card_counts() -> None:
    """All go at the pace of the slowest."""
    assert observed(FOUR, looks(9e9, 8e9, 8.5e9, 9.1e9), VERDICT) == {"pcie": 8e9}


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (looks(9e9, 8e9, 8.5e9), VERDICT),  # one was not looked at
        (looks(9e9, 8e9, 8.5e9, 2e9), VERDICT),  # one does something else
        (looks(9e6, 9e6, 9e6, 9e6), VERDICT),  # control traffic
        (looks(9e9, 9e9, 9e9, 9e9, same_instant=0.2), VERDICT),  # copies, in turn
        (looks(9e9, 9e9, 9e9, 9e9, same_instant=math.nan), VERDICT),
        (looks(9e9, 9e9, 9e9, 9e9), dataclasses.replace(VERDICT, job_class=JobClass.HOST)),
        (looks(9e9, 9e9, 9e9, 9e9), dataclasses.replace(VERDICT, window_s=4.0)),
    ],
)
def test_what_is_no_collective_teaches_nothing(seen: list[CardEvidence], verdict: Verdict) -> None:
    """Unless every card moves about the same in both directions at once, for a while, nothing is learned."""
    assert observed(FOUR, seen, verdict) == {}


def test_short_bursts_teach_their_mean() -> None:
    """Where slots do not show the burst's rate the mean is what was sustained at least."""
    assert observed(FOUR, looks(9e9, 9e9, 9e9, 9e9, humped=False), VERDICT) == {"pcie": 4.5e9}


def test_a_learned_rate_is_used() -> None:
    """Two cards that have carried twice what eight do are expected to do so again."""
    known = {(one.uuids, one.link): one for one in (rate(8, 6e9), rate(2, 12e9))}
    ratios = relative(run(8), uuids(2), detail="bandwidth", topology=SWITCHED, rates=known)
    assert ratios == (2.0, 1.0, pytest.approx(2.2))


def test_latency_has_no_rate() -> None:
    """Where small messages set the pace, the rate of the links does not matter."""
    assert relative(run(8), uuids(2), detail="latency", topology=SWITCHED, rates={}) == (0.0, 0.0, 0.0)


def test_a_full_shared_link_is_shared_by_fewer() -> None:
    """Two cards of eight have the socket's links for themselves, as far as that is what was full."""
    assert relative(run(8), uuids(2), detail="uplink", topology=SWITCHED, rates={}) == (2.0, 1.0, 2.0)
    assert relative(run(8), uuids(2), detail="bandwidth", topology=SWITCHED, rates={}) == (1.0, 1.0, 2.0)
    flat = Topology(flat=True)
    assert relative(run(8), uuids(2), detail="uplink", topology=flat, rates={}) == (4.0, 1.0, 4.0)
