"""Links that several cards share: the traffic of all cards below a bridge over what the bridge carries upwards.

Without peer access a byte between two cards under one bridge crosses it twice, once up and once down, which is what
the sums of their TX and RX say. With peer access inside the switch the sums are too high; the driver's word on
peer access is only a claim, so the figure is shown and never judged alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gpumon.analysis.capacity import Capacity, of_hop
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.memory import CardMemory
from gpumon.model.topology import Uplink
from gpumon.model.view import LinkView, UplinkView

# Sums beyond this do not cross the bridge: peers below it reach each other inside the switch.
INSIDE = 1.25


def observe(uplink: Uplink, busy: bool, before: Capacity | None) -> Capacity:
    """Return the capacity of the shared link; `busy` when any card below it works."""
    return of_hop(uplink.hop, busy, before if before is not None else Capacity())


def _sum(views: list[LinkView], direction: str) -> float:
    rates = [getattr(view, direction).bytes_per_second for view in views]
    return math.nan if not rates or any(math.isnan(rate) for rate in rates) else sum(rates)


def view(uplink: Uplink, capacity: Capacity, pcie: Mapping[str, LinkView]) -> UplinkView:
    """Return the shared link as outputs show it; saturation is missing when one card's traffic is."""
    views = [pcie[uuid] for uuid in uplink.uuids if uuid in pcie]
    whole = len(views) == len(uplink.uuids)
    return UplinkView(
        address=uplink.address,
        uuids=uplink.uuids,
        ceiling_bytes_per_second=capacity.ceiling,
        attainable_bytes_per_second=capacity.attainable,
        rx_saturation_ratio=_sum(views, "rx") / capacity.attainable if whole else math.nan,
        tx_saturation_ratio=_sum(views, "tx") / capacity.attainable if whole else math.nan,
    )


def saturation(uplinks: Iterable[Uplink], mine: Mapping[str, CardEvidence], held: Mapping[str, CardMemory]) -> float:
    """Return how full the fullest shared bridge above a job's cards is while they exchange; NaN where none is known.

    Means alone are too little where the cards exchange only now and then: the job's own then count with the rate at
    which their links level off, as far as the bridge could carry all of them at once.

    Args:
        mine: the job's cards by uuid.
        held: all cards of the node by uuid.
    """
    found = [math.nan]
    for uplink in uplinks:
        if not any(uuid in mine for uuid in uplink.uuids):
            continue
        attainable = observe(uplink, busy=True, before=None).attainable
        mean = sum(_mean(uuid, held) for uuid in uplink.uuids) / attainable
        levels = [mine[uuid].pcie.plateau if uuid in mine else _mean(uuid, held) for uuid in uplink.uuids]
        level = sum(levels) / attainable
        found.append(level if level <= INSIDE else mean if mean <= INSIDE else math.nan)
    return max((share for share in found if not math.isnan(share)), default=math.nan)


def _mean(uuid: str, held: Mapping[str, CardMemory]) -> float:
    if uuid not in held:
        return math.nan
    view = held[uuid].pcie.view
    known = [rate for rate in (view.rx.bytes_per_second, view.tx.bytes_per_second) if not math.isnan(rate)]
    return max(known, default=math.nan)
