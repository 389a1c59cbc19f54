"""One card through one tick: windows, capacity, link figures, levels, throttling."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpumon.analysis import activity, links, throttling, windows
from gpumon.analysis import capacity as capacities
from gpumon.analysis.activity import Levels
from gpumon.analysis.memory import CardMemory
from gpumon.analysis.windows import RX, TX
from gpumon.model.card import Card
from gpumon.model.samples import CardTick
from gpumon.model.topology import CardPath

BUSY_UTILIZATION = 0.1
BUSY_BYTES_PER_SECOND = 50e6  # far above the background of an idle card, far below any transfer that matters
LINK_KEYS = ("link_generation", "link_generation_max", "link_width_lanes", "link_width_max_lanes")
NO_KERNEL = 0.005  # of utilization: rounding of a percent


def _whole(value: float) -> int:
    return 0 if math.isnan(value) else int(value)


def extend(
    memory: CardMemory, card: Card, tick: CardTick, path: CardPath | None, *, now_s: float, turn: bool
) -> CardMemory:
    """Return the card's memory after one tick.

    Args:
        path: the card's way to the root complex; None where it is not known.
        turn: whether the link's gauges are renewed in this tick.
    """
    if not tick.up:
        return replace(memory, up=False, busy=False, last_mean=math.nan)
    grown, new = windows.extend(memory.windows, tick, now_s)
    rx, tx = links.look(new.pcie, RX), links.look(new.pcie, TX)
    mean = float(np.fmax(rx.mean, tx.mean))
    busy = tick.reading("utilization_ratio") >= BUSY_UTILIZATION or mean >= BUSY_BYTES_PER_SECOND
    readings = {key: _whole(tick.reading(key)) for key in LINK_KEYS}
    capacity = capacities.observe_card(memory.capacity, path, readings, busy)
    capacity = capacities.withdraw_if_exceeded(capacity, mean)
    capacity = capacities.learn(capacity, np.concatenate((rx.rates, tx.rates)), now_s)
    pcie = links.extend(
        memory.pcie,
        grown.pcie,
        rx,
        tx,
        source=grown.pcie_source,
        attainable=capacity.attainable,
        now_s=now_s,
        turn=turn,
    )
    nvlink = memory.nvlink
    if card.nvlink.links > 0:
        usable = card.nvlink.bytes_per_second_per_direction
        nvlink = links.with_usable(
            links.extend(
                memory.nvlink,
                grown.nvlink,
                links.look(new.nvlink, RX),
                links.look(new.nvlink, TX),
                source=grown.nvlink_source,
                attainable=usable,
                now_s=now_s,
                turn=turn,
            ),
            usable,
        )
    return CardMemory(
        windows=grown,
        capacity=capacity,
        pcie=links.with_capacity(pcie, capacity),
        nvlink=nvlink,
        levels=_learn_context(memory.levels, tick),
        throttle=throttling.extend(memory.throttle, tick, now_s),
        last_mean=mean,
        up=True,
        busy=busy,
        last_seen_s=now_s,
    )


def _learn_context(levels: Levels, tick: CardTick) -> Levels:
    """Return the levels after a tick: a process without a kernel shows the card's context level.

    The utilization ring lags by a sample or two, so the power of the tick itself must be low as well.
    """
    limit = tick.reading("power_limit_watts")
    levels = activity.for_limit(levels, limit)
    ring = tick.utilization.value
    busiest = float(ring.max()) if ring.size else tick.reading("utilization_ratio")
    if not busiest <= NO_KERNEL or not tick.processes:
        return levels
    watts = tick.power.value
    highest = float(watts.max()) if watts.size else tick.reading("power_watts")
    if not highest <= activity.CONTEXT_SHARE[1] * limit:
        return levels
    return activity.learn_context(levels, float(watts.mean()) if watts.size else highest)
