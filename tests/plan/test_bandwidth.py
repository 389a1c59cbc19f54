"""Bandwidth between cards: given, learned or typical, and what a node's size does to it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpumon.data import tables
from gpumon.plan.bandwidth import host_copy_rate, link_path, peer_latency, peer_rate, way
from gpumon.plan.request import Precision, Request

from .questions import ask


@pytest.mark.parametrize(
    ("card", "cards", "changes", "path"),
    [
        ("rtx4090", 2, {}, "host"),
        ("rtx4090", 2, {"p2p": True}, "p2p"),
        ("rtxpro6000", 8, {}, "p2p"),
        ("h100-sxm", 8, {}, "nvlink"),
        ("h100-sxm", 8, {"nvlink": False, "p2p": False}, "host"),
        ("rtx3090", 2, {"nvlink": True}, "nvlink"),
        ("rtx3090", 4, {"nvlink": True}, "host"),
    ],
)
def test_the_path_follows_from_card_and_count(card: str, cards: int, changes: dict[str, bool], path: str) -> None:
    """NVLink where it joins that many cards, else PCIe with or without P2P; a bridge joins two."""
    assert link_path(ask("7B", card, cards, **changes), cards) == path


@pytest.mark.parametrize("card", [card.key for card in tables.cards()])
def test_typical_values_never_rise_with_the_count_and_never_beat_the_line(card: str) -> None:
    """For every card: low <= typical <= high < line rate, and typical never rises from 2 to 8 cards."""
    request = ask("gpt2", card, 8, precision=Precision.FP16)
    rates = [
        peer_rate(request, count, count).bytes_per_second for count in range(2, 9) if not request.nvlink or count <= 8
    ]
    assert all(rate.low <= rate.typical <= rate.high for rate in rates)
    assert all(first.typical >= second.typical for first, second in pairwise(rates))
    line = (
        request.card.nvlink_one_way_bytes_per_second
        if request.nvlink
        else tables.pcie_bytes_per_second(request.card.pcie_generation, request.card.pcie_lanes)
    )
    assert all(rate.high < line for rate in rates)


def test_a_pair_of_rtx4090_is_near_its_published_rate() -> None:
    """Two RTX 4090 typically carry about 6 GB/s. Source: lambdal/deeplearning-benchmark, 6.5 and 6.1 GB/s implied."""
    assert peer_rate(ask("7B", "rtx4090", 2), 2, 2).bytes_per_second.typical == pytest.approx(6.1e9, rel=0.1)


def test_eight_rtx5090_carry_about_half_of_their_link() -> None:
    """Eight RTX 5090 typically carry 28 of 63 GB/s. Source: NVIDIA/nccl#1639."""
    assert peer_rate(ask("7B", "rtx5090", 8), 8, 8).bytes_per_second.typical == pytest.approx(28e9, rel=0.01)


def test_a_narrower_slot_carries_less() -> None:
    """The typical rate scales with the lanes of the slot."""
    wide, narrow = (ask("7B", "rtx4090", 2, pcie_lanes=lanes) for lanes in (16, 4))
    assert peer_rate(narrow, 2, 2).bytes_per_second.typical == pytest.approx(
        peer_rate(wide, 2, 2).bytes_per_second.typical / 4
    )


def _given(*pairs: tuple[int, float]) -> Request:
    return ask("7B", "rtx4090", 8, bandwidth=pairs)


@pytest.mark.parametrize(("cards", "rate"), [(2, 9e9), (3, 9e9), (4, 5e9), (8, 5e9)])
def test_given_rates_count_up_to_the_next_one(cards: int, rate: float) -> None:
    """Between given counts the smaller one counts, without a spread."""
    value = peer_rate(_given((2, 9e9), (4, 5e9)), cards, cards)
    assert value.origin == "given"
    assert value.bytes_per_second.low == value.bytes_per_second.typical == value.bytes_per_second.high == rate


def test_the_network_bounds_more_than_one_node() -> None:
    """Sixteen cards are two nodes: the network's 3.125 GB/s bound the ring, and the way is named so."""
    request = ask("7B", "h100-sxm", 16)
    assert peer_rate(request, 16, 16).bytes_per_second.typical == 3.125e9
    assert peer_rate(request, 8, 16).bytes_per_second.typical > 200e9
    assert way(request, 16) == "network"


@pytest.mark.parametrize(
    ("card", "cards", "seconds"),
    [("rtx4090", 8, 42e-6), ("rtxpro6000", 8, 24e-6), ("rtxpro6000", 4, 19e-6), ("h100-sxm", 8, 18e-6)],
)
def test_small_messages_cost_what_was_published(card: str, cards: int, seconds: float) -> None:
    """A small all-reduce takes 42 us on 8x RTX 4090 (NVIDIA/nccl#1530), 24 on 8x PRO 6000, 18 over NVLink."""
    assert peer_latency(ask("7B", card, cards), cards) == pytest.approx(seconds)


def test_host_copies_reach_what_was_published() -> None:
    """A copy to an RTX 4090 typically takes 26 GB/s. Source: NVIDIA/nvbandwidth#15, 23.9 to 27.1."""
    assert host_copy_rate(ask("7B", "rtx4090", 1)).typical == pytest.approx(26.4e9, rel=0.02)
