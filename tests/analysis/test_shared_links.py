"""Links that several cards share, and which of a job's cards count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpumon.analysis import uplinks
from gpumon.analysis.case import Case
from gpumon.analysis.causes import communication_uplink
from gpumon.analysis.evidence import CardEvidence, JobEvidence
from gpumon.analysis.links import LinkPast
from gpumon.analysis.memory import CardMemory
from gpumon.model.job import Layout
from gpumon.model.topology import LinkHop, Uplink
from gpumon.model.view import DirectionView, LinkView
from tests.analysis.scripted import job
from tests.findings import subjects

GB = 1e9
BRIDGE = LinkHop("0000:10:00.0", "0000:00:01.0", 4, 16, 4, 16)  # 31.5 GB/s, 26.8 attainable
UPLINK = Uplink("0000:10:00.0", ("GPU-0", "GPU-1"), BRIDGE)


def levelling(gpu: int, plateau: float) -> CardEvidence:
    """A card whose link levels off at a rate, bytes per second."""
    card = subjects.evidence(f"GPU-{gpu}", gpu)
    return replace(card, pcie=replace(card.pcie, plateau=plateau))


def moving(mean: float) -> CardMemory:
    """A card of the node whose link moves so much on average, each way."""
    direction = DirectionView(bytes_per_second=mean)
    return CardMemory(pcie=LinkPast(LinkView(rx=direction, tx=direction)))


def test_two_cards_fill_the_bridge_above_them() -> None:
    """The job's own cards count with the rate at which they level off together."""
    mine = {"GPU-0": levelling(0, 12 * GB), "GPU-1": levelling(1, 12 * GB)}
    held = {"GPU-0": moving(5 * GB), "GPU-1": moving(5 * GB)}
    assert uplinks.saturation([UPLINK], mine, held) == pytest.approx(24 / 26.8, abs=0.01)


def test_a_neighbour_on_the_bridge_counts_with_its_mean() -> None:
    """Another job's card below the same bridge fills it as well."""
    mine = {"GPU-0": levelling(0, 12 * GB)}
    held = {"GPU-0": moving(5 * GB), "GPU-1": moving(10 * GB)}
    assert uplinks.saturation([UPLINK], mine, held) == pytest.approx(22 / 26.8, abs=0.01)


def test_levels_that_were_never_reached_at_once_give_way_to_means() -> None:
    """Two cards that level off at the bridge's whole rate take turns: what crosses it on average is what is known."""
    mine = {"GPU-0": levelling(0, 26 * GB), "GPU-1": levelling(1, 26 * GB)}
    held = {"GPU-0": moving(13 * GB), "GPU-1": moving(13 * GB)}
    assert uplinks.saturation([UPLINK], mine, held) == pytest.approx(26 / 26.8, abs=0.01)


def test_sums_that_no_bridge_carries_say_nothing() -> None:
    """Peers that reach each other inside the switch add up to more than crosses it."""
    mine = {"GPU-0": levelling(0, 26 * GB), "GPU-1": levelling(1, 26 * GB)}
    held = {"GPU-0": moving(20 * GB), "GPU-1": moving(20 * GB)}
    assert math.isnan(uplinks.saturation([UPLINK], mine, held))


def test_a_job_elsewhere_does_not_fill_it() -> None:
    """A bridge above none of the job's cards is not its matter."""
    assert math.isnan(uplinks.saturation([UPLINK], {"GPU-4": levelling(4, 9 * GB)}, {"GPU-0": moving(9 * GB)}))


def test_cards_that_were_only_given_do_not_count() -> None:
    """One busy card of eight is what the job does; a job that uses none is judged by what it holds."""
    used = subjects.evidence("GPU-0", 0)
    given = tuple(replace(subjects.evidence(f"GPU-{gpu}", gpu), used=False) for gpu in range(1, 8))
    assert JobEvidence(0.0, 40.0, (used, *given)).working == (used,)
    assert JobEvidence(0.0, 40.0, given).working == given


def fits_uplink(asked: str, plateau: float, flat_top: float) -> float:
    """How well a shared link without a bridge in the tree fits four cards that level off alike; 0 where it does not."""
    cards = []
    for gpu in range(4):
        card = subjects.evidence(f"GPU-{gpu}", gpu)
        attainable = 0.85 * card.pcie.ceiling
        link = replace(card.pcie, rx=0.6 * plateau, tx=0.6 * plateau, plateau=plateau, flat_top=flat_top, humped=True)
        cards.append(replace(card, pcie=replace(link, saturation=plateau / attainable)))
    seen = JobEvidence(0.0, 40.0, tuple(cards))
    split = subjects.certain_split({"communication": 0.6, "compute": 0.4}, first="communication", lead=0.2)
    found = communication_uplink.judge(Case(job(4, Layout(asked=asked)), seen, split))
    return 0.0 if found is None else found.weight


def test_replicas_that_exchange_slowly_share_something() -> None:
    """Gradients travel in large buckets: a low level is a slow path; of layers it may be small messages."""
    ceiling = subjects.evidence("GPU-0", 0).pcie.ceiling
    assert fits_uplink("ddp", 0.07 * ceiling, 1.0) >= 0.7
    assert fits_uplink("tp", 0.07 * ceiling, 1.0) == 0.0


def test_links_neither_full_nor_with_small_messages_share_something() -> None:
    """Half of what the own link carries, without a flat top: something else is full; a full link is full itself."""
    ceiling = subjects.evidence("GPU-0", 0).pcie.ceiling
    assert 0.3 <= fits_uplink("tp", 0.45 * ceiling, 1.25) <= 0.6
    assert fits_uplink("tp", 0.84 * ceiling, 1.25) == 0.0
