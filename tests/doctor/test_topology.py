"""The topology as text and JSON: what a person reads at night."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from gpumon.doctor.topology import document, draw
from gpumon.model.card import NvLinkFacts
from gpumon.model.fault import Fault
from gpumon.model.topology import LinkHop, P2p, PciGpu, Topology, Uplink

from .conftest import SWITCH, make_card, make_facts, make_path, make_topology

CARDS = (make_card(0), make_card(1))


def test_tree_of_a_switch() -> None:
    """Cards hang below the bridge they share; each line has negotiated and maximum link."""
    narrow = make_topology(paths=(make_path(0, above=(SWITCH,)), make_path(1, width=8, above=(SWITCH,))))
    assert draw(make_facts(), CARDS, narrow, {}) == (
        "node-7: 2 cards, bare host, driver 570.86.15\n"
        "IOMMU: off   ACS: off\n"
        "\n"
        "root complex pci0000:00  NUMA 0\n"
        "└─ bridge 0000:01:00.0  gen4 x16  shared by cards 0, 1\n"
        "   ├─ card 0  NVIDIA GeForce RTX 4090  0000:11:00.0  gen4 x16\n"
        "   └─ card 1  NVIDIA GeForce RTX 4090  0000:12:00.0  gen4 x8 of gen4 x16  NARROW\n"
        "\n"
        "Narrowest hop to the root complex:\n"
        "  card 0: gen4 x16, 31.5 GB/s each way (its own link)\n"
        "  card 1: gen4 x8, 15.8 GB/s each way (its own link)\n"
        "\n"
        "NVLink: none\n"
        "\n"
        "Peer access as the driver says it (a claim, not a measurement; ok = cards talk directly):\n"
        "      0       1\n"
        "  0   -       PIX no\n"
        "  1   PIX no  -\n"
        "  PIX one switch.\n"
        "  Reasons given: chipset_not_supported.\n"
    )


def test_sleeping_card_is_no_alarm_and_slow_bridge_is() -> None:
    """A card at generation 1 sleeps; a bridge below its maximum is called out."""
    slow = replace(SWITCH, current_width=4)
    asleep = make_path(0, above=(slow,))
    asleep = replace(asleep, hops=(replace(asleep.hops[0], current_generation=1), slow))
    topology = make_topology(
        paths=(asleep, make_path(1, above=(slow,))), uplinks=(Uplink(slow.address, ("GPU-0", "GPU-1"), slow),)
    )
    picture = draw(make_facts(), CARDS, topology, {})
    assert "gen1 x16 of gen4 x16 (the generation falls at idle)" in picture
    assert "gen4 x4 of gen4 x16  BELOW ITS MAXIMUM" in picture
    assert "card 0: gen4 x4, 7.9 GB/s each way (bridge 0000:01:00.0)" in picture


def test_flat_tree_takes_the_link_from_the_driver() -> None:
    """In a virtual machine no tree is drawn, and the card's link is what the driver reads."""
    path = replace(make_path(0), hops=(LinkHop("0000:11:00.0", "0000:00:02.0", 4, 32, 4, 32, virtual=True),))
    readings = {"GPU-0": dict.fromkeys(("link_generation", "link_generation_max"), 4.0)}
    readings["GPU-0"] |= dict.fromkeys(("link_width_lanes", "link_width_max_lanes"), 8.0)
    facts = make_facts(standing="vm", virtualization="kvm")
    picture = draw(facts, CARDS[:1], Topology(paths=(path,), flat=True), readings)
    assert "1 card, virtual machine (kvm)" in picture
    assert "Uplinks, NUMA nodes and neighbours are unknown." in picture
    assert "card 0  NVIDIA GeForce RTX 4090  0000:11:00.0  gen4 x8\n" in picture
    assert "Narrowest" not in picture


def test_host_with_cards_for_guests() -> None:
    """Cards that NVML does not serve are listed with their driver and width."""
    topology = Topology(pci_gpus=(PciGpu("0000:21:00.0", "vfio-pci", 8, 16),))
    picture = draw(make_facts(driver_version=""), (), topology, {})
    assert "0 cards, bare host, driver not loaded" in picture
    assert "  0000:21:00.0  vfio-pci  x8 of x16\n" in picture


def test_nvlink_and_lost_card_are_shown() -> None:
    """NVLink stands with links up, rate and peers; a lost card says so in its line."""
    linked = replace(CARDS[0], nvlink=NvLinkFacts(18, 17, "4.0", 450e9, ("switch",) * 17))
    lost = make_card(1, fault=Fault.LOST)
    picture = draw(make_facts(), (linked, lost), make_topology(), {})
    assert "card 0: NVLink 4.0, 17 of 18 links up, 450 GB/s each way, to switch" in picture
    assert "0000:12:00.0  gen4 x16  LOST" in picture


def test_document_is_valid_json_with_nulls() -> None:
    """Unknown is null, never NaN or 0; numbers are base units."""
    unknown = LinkHop("0000:12:00.0", "", 0, 0, 0, 0, virtual=True)
    paths = (make_path(0, above=(SWITCH,)), replace(make_path(1), hops=(unknown,), numa_node=-1))
    card = replace(CARDS[1], nvlink=NvLinkFacts(0, 0, "", math.nan, ()))
    answer = document(make_facts(), (CARDS[0], card), make_topology(paths=paths, iommu="", acs_enabled=None), {})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    first, second = answer["gpus"]  # type: ignore[misc]
    assert first["ceiling_bytes_per_second"] == pytest.approx(31.508e9, rel=1e-4)
    assert first["narrowest_hop"] == "0000:11:00.0"
    assert second["ceiling_bytes_per_second"] is None
    assert second["numa_node"] is None
    assert second["hops"][0]["width"] is None
    assert (answer["iommu"], answer["acs_enabled"]) == (None, None)
    assert answer["p2p"] == [{"gpu": 0, "peer": 1, "path": "PIX", "driver_says": "chipset_not_supported"}]


def test_pair_the_driver_did_not_answer_for() -> None:
    """A pair without an answer is a question mark, not a yes or a no."""
    three = (*CARDS, make_card(2))
    topology = make_topology(p2p=(P2p("GPU-0", "GPU-1", "PHB", "ok"),))
    assert "  2   ?       ?       -\n" in draw(make_facts(), three, topology, {})
