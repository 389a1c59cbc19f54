"""Transfers share links, uplinks and host memory max-min fair, and bytes follow the algorithms."""

from __future__ import annotations

import pytest

from gpumon.hardware.simulated.cards import CARDS, wire_bytes_per_second
from gpumon.hardware.simulated.engine import Engine
from gpumon.hardware.simulated.fabric import (
    RX,
    TX,
    WIRE_PER_PAYLOAD,
    Fabric,
    HostSpec,
    Slot,
    host_copy,
    ring,
    send,
)
from gpumon.hardware.simulated.scenario import slots
from gpumon.hardware.simulated.timeline import Label

GB = 1e9


def _fabric(places: tuple[Slot, ...], host: HostSpec) -> Fabric:
    return Fabric(Engine(), places, host, lambda cards: None, lambda cards: None)


@pytest.mark.parametrize(
    ("generation", "lanes", "rate"),
    [(1, 16, 4.0), (2, 8, 4.0), (3, 16, 15.75), (4, 8, 15.75), (4, 16, 31.5), (5, 16, 63.0)],
)
def test_line_rates(generation: int, lanes: int, rate: float) -> None:
    """Line rates per direction are those of the PCIe specifications."""
    assert wire_bytes_per_second(generation, lanes) == pytest.approx(rate * GB, rel=0.005)


def test_ring_without_peer_access_crosses_each_link_once_each_way() -> None:
    """Staged through host memory, each byte leaves the sender and enters the receiver; both ways count alike."""
    route = ring(slots("rtx4090", 4), range(4), HostSpec())
    for rx, tx, nvlink_rx, nvlink_tx in route.cards.values():
        assert rx == pytest.approx(WIRE_PER_PAYLOAD)
        assert tx == pytest.approx(WIRE_PER_PAYLOAD, rel=0.06)
        assert nvlink_rx == nvlink_tx == 0


def test_nvlink_leaves_pcie_quiet() -> None:
    """With NVLink no byte of a collective crosses PCIe."""
    route = ring(slots("h100sxm", 8), range(8), HostSpec())
    assert all(counts == (0.0, 0.0, 1.0, 1.0) for counts in route.cards.values())


def test_host_memory_holds_eight_cards_below_their_links() -> None:
    """8 x RTX 5090 get 28 GB/s where 4 get 35: the memory of two sockets is full, no link is (NVIDIA/nccl#1639)."""
    host = HostSpec(staging_bytes_per_second=35 * GB)
    eight, four = slots("rtx5090", 8), slots("rtx5090", 4)
    all_eight, all_four = ring(eight, range(8), host), ring(four, range(4), host)
    assert _fabric(eight, host).solo_rate(all_eight) == pytest.approx(28.5 * GB, rel=0.02)
    assert _fabric(four, host).solo_rate(all_four) == pytest.approx(35 * GB, rel=0.02)
    assert _fabric(eight, host).shared_alone(all_eight)


def test_narrow_link_is_the_own_link() -> None:
    """On x4 lanes the card's own link is what holds the ring, not the board."""
    places = slots("rtx4090", 2, lanes=4)
    host = HostSpec(staging_bytes_per_second=13 * GB)
    route = ring(places, (0, 1), host)
    assert _fabric(places, host).solo_rate(route) == pytest.approx(0.8 * 7.88 * GB, rel=0.01)
    assert not _fabric(places, host).shared_alone(route)


def test_two_transfers_share_an_uplink_evenly() -> None:
    """Two copies below one switch get half of its uplink each, and the whole again when the other ends."""
    places = slots("rtx5090", 2, per_switch=2, sockets=1)
    host = HostSpec(sockets=1, switch_generation=4)
    fabric = _fabric(places, host)
    routes = [host_copy(places, card, RX) for card in (0, 1)]
    alone = fabric.solo_rate(routes[0])
    first = fabric.start(routes[0], 10 * GB, Label.OFFLOAD, collective=False)
    second = fabric.start(routes[1], 2 * GB, Label.OFFLOAD, collective=False)
    assert first.rate == second.rate == pytest.approx(alone / 2)
    assert first.shared_bound
    fabric.engine.run_until(2 * GB / second.rate + 1e-6)
    assert second.done.fired
    assert first.rate == pytest.approx(alone)


def test_transfers_finish_when_their_bytes_are_through() -> None:
    """A transfer ends after size over rate, whatever shared its way meanwhile."""
    places = slots("rtx4090", 2, sockets=1)
    fabric = _fabric(places, HostSpec(sockets=1))
    route = host_copy(places, 0, TX)
    transfer = fabric.start(route, 5 * GB, Label.CHECKPOINT, collective=False)
    expected = 5 * GB / fabric.solo_rate(route)
    fabric.engine.run_until(expected * 0.999)
    assert not transfer.done.fired
    fabric.engine.run_until(expected * 1.001)
    assert transfer.done.fired


def test_sockets_and_directions() -> None:
    """A send between sockets loads the link between them in its own direction only."""
    places = (Slot(CARDS["rtx4090"], 0), Slot(CARDS["rtx4090"], 1))
    route = send(places, 0, 1, HostSpec())
    assert "socket0to1" in route.use
    assert "socket1to0" not in route.use
    assert route.cards[0][RX] == 0
    assert route.cards[1][RX] > 1
