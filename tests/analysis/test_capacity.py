"""What a link can carry: ceiling, attainable rate, withdrawal, downtraining."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpumon.analysis.capacity import BUSY_TICKS, Capacity, learn, line_rate, observe_card, withdraw_if_exceeded
from gpumon.model.topology import CardPath, LinkHop


def readings(generation: int = 4, width: int = 16, generation_max: int = 4, width_max: int = 16) -> dict[str, int]:
    return {
        "link_generation": generation,
        "link_generation_max": generation_max,
        "link_width_lanes": width,
        "link_width_max_lanes": width_max,
    }


def busy_for(ticks: int, state: dict[str, int], path: CardPath | None = None) -> Capacity:
    capacity = Capacity()
    for _ in range(ticks):
        capacity = observe_card(capacity, path, state, busy=True)
    return capacity


def path(*hops: tuple[int, int, bool]) -> CardPath:
    found = tuple(
        LinkHop(f"0000:0{n}:00.0", "", generation, width, generation, width, virtual)
        for n, (generation, width, virtual) in enumerate(hops)
    )
    return CardPath("GPU-0", "0000:00:00.0", found, "pci0000:00", 0)


@pytest.mark.parametrize(
    ("generation", "width", "rate"),
    [(3, 16, 15.75e9), (4, 8, 15.75e9), (5, 16, 63.0e9), (6, 16, 121e9), (1, 1, 0.25e9)],
)
def test_line_rate(generation: int, width: int, rate: float) -> None:
    """The line rate is that of the published table for generation and width."""
    assert line_rate(generation, width) == pytest.approx(rate, rel=0.005)
    assert math.isnan(line_rate(0, width))


def test_an_idle_card_keeps_its_maximum() -> None:
    """Generation 1 at idle is power saving: the maximum is assumed, and said to be."""
    capacity = observe_card(Capacity(), None, readings(generation=1), busy=False)
    assert capacity.ceiling == pytest.approx(31.5e9, rel=0.005)
    assert capacity.assumed
    assert capacity.downtrained is None


def test_generation_is_taken_under_load() -> None:
    """After a few busy ticks the generation is the one that was seen, and the ceiling is no longer assumed."""
    capacity = busy_for(BUSY_TICKS + 1, readings(generation=3))
    assert capacity.ceiling == pytest.approx(15.75e9, rel=0.005)
    assert not capacity.assumed


def test_a_narrow_link_is_downtrained_at_any_time() -> None:
    """Width is judged at idle as well: 8 of 16 lanes is downtrained at once."""
    assert observe_card(Capacity(), None, readings(width=8), busy=False).downtrained is True


def test_a_slow_link_is_downtrained_only_under_load() -> None:
    """Generation below its maximum counts after ten busy ticks in a row."""
    assert busy_for(BUSY_TICKS + 2, readings(generation=3)).downtrained is False
    assert busy_for(BUSY_TICKS + 11, readings(generation=3)).downtrained is True


def test_the_narrowest_hop_sets_the_ceiling() -> None:
    """A riser or chipset hop above the card limits it; a virtual bridge says nothing about the wire."""
    narrow = busy_for(5, readings(), path((4, 16, False), (3, 4, False)))
    assert narrow.ceiling == pytest.approx(3.94e9, rel=0.005)
    assert narrow.narrowest == "0000:01:00.0"
    virtual = busy_for(5, readings(), path((4, 16, False), (1, 1, True)))
    assert virtual.ceiling == pytest.approx(31.5e9, rel=0.005)


def test_attainable_is_learned_from_a_full_link_only() -> None:
    """Slots far below the ceiling teach nothing; 200 full ones over a minute do."""
    capacity = busy_for(5, readings())
    assumed = capacity.attainable
    low = np.full(20, 0.45 * capacity.ceiling)
    full = np.full(20, 0.9 * capacity.ceiling)
    for second in range(70):
        capacity = learn(capacity, low, float(second))
    assert capacity.attainable == assumed
    for second in range(70, 140):
        capacity = learn(capacity, full, float(second))
    assert capacity.learned
    assert capacity.attainable == pytest.approx(0.9 * capacity.ceiling, rel=0.01)


def test_attainable_never_passes_what_packets_leave() -> None:
    """Counters that include headers do not raise the attainable rate above 0.97 of the ceiling."""
    capacity = busy_for(5, readings())
    for second in range(70):
        capacity = learn(capacity, np.full(20, 1.02 * capacity.ceiling), float(second))
    assert capacity.attainable == pytest.approx(0.97 * capacity.ceiling)


def test_a_ceiling_that_traffic_exceeds_is_withdrawn() -> None:
    """Traffic above the ceiling proves it wrong: the generation falls back on the maximum, then the hop is dropped."""
    capacity = busy_for(5, readings(generation=3))
    capacity = withdraw_if_exceeded(capacity, 20e9)
    capacity = observe_card(capacity, None, readings(generation=3), busy=True)
    assert capacity.ceiling == pytest.approx(31.5e9, rel=0.005)
    gone = withdraw_if_exceeded(replace(capacity, seen_generation=0), 40e9)
    assert math.isnan(gone.ceiling)
    assert math.isnan(observe_card(gone, None, readings(), busy=True).ceiling)


def test_the_resolution_of_kilobytes_does_not_withdraw() -> None:
    """1024 read as 1000 is 2.4 % and not proof of a wrong ceiling."""
    capacity = busy_for(5, readings())
    assert withdraw_if_exceeded(capacity, 1.024 * capacity.ceiling) is capacity
