"""Links that several cards share: the traffic of all cards below a bridge over what the bridge carries upwards.

Without peer access a byte between two cards under one bridge crosses it twice, once up and once down, which is what
the sums of their TX and RX say. With peer access inside the switch the sums are too high; the driver's word on
peer access is only a claim, so the figure is shown and never judged alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpumon.analysis.capacity import Capacity, of_hop
from gpumon.model.topology import Uplink
from gpumon.model.view import LinkView, UplinkView


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
