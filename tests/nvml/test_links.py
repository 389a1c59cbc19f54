"""Links between cards: NVLink as the driver tells it, peers, GPM pairs, and what it says of peer access."""

from __future__ import annotations

import math

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.reader import CounterSample, GpmSample
from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.model.topology import P2p
from tests.nvml.reading import opened, rare, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def test_nvlink_over_a_switch(standin: Standin, node: NvmlNode) -> None:
    """Eighteen links of an H100 end at switches and carry 450 GB/s, less than the driver's 478."""
    standin.apply("card 0 nvlink_links 18", "card 0 nvlink_bytes_per_second 450e9", "card 1 nvlink_links 18")
    standin.apply(*(f"nvlink_peer {card} {link} switch" for card in (0, 1) for link in range(18)))
    first, _ = opened(node)
    assert (first.nvlink.links, first.nvlink.active, first.nvlink.version) == (18, 18, "4.0")
    assert first.nvlink.bytes_per_second_per_direction == pytest.approx(450e9, rel=1e-3)
    assert set(first.nvlink.peers) == {"switch"}
    assert node.topology(opened(node)).p2p[0].path == "NV18"


def test_nvlink_by_a_bridge_with_a_dead_link(standin: Standin, node: NvmlNode) -> None:
    """Three of four bridge links are active; the peer is named, the dead link counted as inactive."""
    standin.apply("card 0 nvlink_links 4", "card 0 nvlink_version 3.0", "card 0 nvlink_bytes_per_second 42.1875e9")
    standin.apply("card 1 nvlink_links 4", *(f"nvlink_peer 0 {link} 1" for link in (0, 1, 3)))
    standin.apply(*(f"nvlink_peer 1 {link} 0" for link in (0, 1, 3)))
    first, second = readers(node)
    links = first.card.nvlink
    assert (links.links, links.active, links.version) == (4, 3, "3.0")
    assert links.peers == (second.card.identity.uuid,) * 3
    assert links.bytes_per_second_per_direction == pytest.approx(42.1875e9, rel=1e-3)
    assert first.card.capabilities.nvlink_source is LinkSource.FIELD
    readings = rare(first).readings
    assert (readings["nvlink_links_active"], readings["nvlink_links_inactive"]) == (3, 1)


def test_cards_without_nvlink(standin: Standin, node: NvmlNode) -> None:
    """Without NVLink there are no links, no source and no readings of them."""
    standin.apply("card 0 minor 0")
    (reader,) = readers(node)
    assert (reader.card.nvlink.links, reader.card.capabilities.nvlink_source) == (0, LinkSource.NONE)
    assert "nvlink_links_active" not in rare(reader).readings


def test_nvlink_bytes_beside_windows(standin: Standin, node: NvmlNode) -> None:
    """A card without PCIe byte counters still has its NVLink bytes and its power in one call."""
    standin.apply("card 0 nvlink_links 1", "card 0 counter_bits 0", "nvlink_peer 0 0 1", "card 1 nvlink_links 1")
    standin.apply("nvlink_peer 1 0 0", "rate 0 power 333", "rate 0 nvlink_rx 1e9", "set 0 GetFieldValue:138 7")
    counters = readers(node)[0].counters()
    assert isinstance(counters, CounterSample)
    assert (counters.rx, counters.tx, counters.power_watts) == (None, None, 333.0)
    assert counters.nvlink_tx_bytes == 7 * 1024
    assert counters.nvlink_rx_bytes > 0


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ("10 0", ("PIX", "ok")),
        ("20 1", ("PXB", "chipset_not_supported")),
        ("30 2", ("PHB", "gpu_not_supported")),
        ("40 3", ("NODE", "topology_not_supported")),
        ("50 4", ("SYS", "disabled")),
        ("0 5", ("internal", "not_supported")),
        ("60 6", ("unknown", "unknown")),
    ],
)
def test_the_drivers_word_on_a_pair(standin: Standin, node: NvmlNode, told: str, names: tuple[str, str]) -> None:
    """Level and status have one name each; the pair is told once."""
    standin.apply("card 0 minor 0", "card 1 minor 1", f"p2p 0 1 {told}")
    cards = opened(node)
    assert node.topology(cards).p2p == (P2p(cards[0].identity.uuid, cards[1].identity.uuid, *names),)


def test_a_refused_write_is_no_peer_access(standin: Standin, node: NvmlNode) -> None:
    """Peers that may read and not write each other are not "ok"; a lost card has no pairs."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "p2p 0 1 10 0", "set 0 GetP2PStatus:1 4")
    assert [pair.p2p for pair in node.topology(opened(node)).p2p] == ["disabled"]
    node.close()
    assert node.topology(()).p2p == ()


def test_gpm_means_between_two_samples(standin: Standin, node: NvmlNode) -> None:
    """Rates become bytes of the interval, ratios are ratios, and a pair is never closer than 100 ms."""
    standin.apply("card 0 gpm 1", "rate 0 pcie_rx 2e9", "rate 0 pcie_tx 1e9", "rate 0 sm_active 0.9")
    standin.apply("rate 0 tensor_active 0.25", "rate 0 dram_active 0.5", "set 0 GpmMetric:3 131.0")
    (reader,) = readers(node)
    assert reader.gpm() is Fault.NO_DATA
    calls = standin.calls("GpmSampleGet")
    while (sample := reader.gpm()) is Fault.NO_DATA:
        continue
    assert standin.calls("GpmSampleGet") == calls + 1
    assert isinstance(sample, GpmSample)
    seconds = sample.t1_s - sample.t0_s
    assert seconds > 0.1
    wanted = {"sm_active_ratio": 0.9, "tensor_active_ratio": 0.25, "dram_active_ratio": 0.5}
    assert dict(sample.readings) == pytest.approx(wanted)
    assert math.isfinite(sample.nvlink_rx_bytes)
    assert node.rejected()["gpm"] == 1


def test_what_one_link_or_pair_refuses_the_others_may_answer(standin: Standin, node: NvmlNode) -> None:
    """A refusal is remembered for its own link, its own pair and its own card only."""
    standin.apply(
        "card 0 nvlink_links 2", "card 1 nvlink_links 2", "card 2 minor 2", "set 0 GetNvLinkRemotePciInfo:0 !3"
    )
    standin.apply(*(f"nvlink_peer {card} {link} {1 - card}" for card in (0, 1) for link in (0, 1)))
    standin.apply("p2p 0 1 10 0", "p2p 0 2 20 0", "p2p 1 2 30 0", "set 0 GetP2PStatus !3*2 =")
    standin.apply("set 0 GetSupportedEventTypes 0x0", "set 1 GetSupportedEventTypes !3")
    cards = opened(node)
    assert cards[0].nvlink.peers == ("unknown", cards[1].identity.uuid)
    assert [(pair.path, pair.p2p) for pair in node.topology(cards).p2p] == [
        ("NV1", "unknown"),
        ("PXB", "ok"),
        ("PHB", "ok"),
    ]
    assert node.xid_events(0.0) == ()
    standin.apply("xid 2 31 now")
    events = node.xid_events(0.1)
    assert not isinstance(events, Fault)
    assert [(event.uuid, event.code) for event in events] == [(cards[2].identity.uuid, 31)]
