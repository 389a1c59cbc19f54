"""Series of one card. A card that does not answer keeps only what says who it is and when it last answered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from gpumon.export.family import Families
from gpumon.model.fields import FEATURES, READINGS, THROTTLE_REASONS, THROTTLE_SECONDS_KEYS
from gpumon.model.text import shown_text
from gpumon.model.view import CardView, LinkView

# A card reports a handful of Xid numbers in its life; a driver bug must not make a series of every number.
MAX_XIDS = 8

# States of gpu_throttled. The harmless reasons share `setting` (a clock asked for by the user, the display, a sync
# group or the board's own limit) so that a GeForce card stays within 64 series; `idle` is not a throttle at all.
_HARD_REASONS = ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")
_SETTING_REASONS = frozenset({"applications_clocks", "sync_boost", "display_clocks", "board_limit", "reliability"})
_NAMED_REASONS = frozenset(THROTTLE_REASONS.values())
# hw_slowdown has no counter of its own: it is set together with heat or brake, which have.
_TIMED_REASONS = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake")

THROTTLE = "throttle_reasons"  # key of the reading among a tick's faults

_Value: TypeAlias = Callable[[CardView], float]


@dataclass(frozen=True, slots=True)
class _Row:
    """One series of a card that answers: family, labels after `gpu` and `uuid`, and where the value lies."""

    metric: str
    labels: tuple[str, ...]
    value: _Value


def _gauge(key: str) -> _Value:
    return lambda view: view.tick.readings.get(key, math.nan)


def _counter(key: str) -> _Value:
    return lambda view: view.counters.get(key, math.nan)


def _from_readings() -> tuple[_Row, ...]:
    return tuple(
        _Row(
            reading.metric,
            tuple(value for _, value in reading.labels),
            _gauge(reading.key) if reading.kind == "gauge" else _counter(reading.key),
        )
        for reading in READINGS
        if reading.metric
    )


def _both_directions(metric: str, path: str) -> tuple[_Row, ...]:
    """Return the rx and tx rows of a field of DirectionView; `path` is "pcie.{}.bytes_total" or alike."""
    return tuple(_Row(metric, (direction,), attrgetter(path.format(direction))) for direction in ("rx", "tx"))


_ROWS: tuple[_Row, ...] = (
    *_from_readings(),
    _Row("gpu_busy_seconds_total", (), attrgetter("busy_seconds_total")),
    *_both_directions("pcie_bytes_total", "pcie.{}.bytes_total"),
    *_both_directions("pcie_observed_bytes_total", "pcie.{}.observed_bytes_total"),
    *_both_directions("pcie_observed_seconds_total", "pcie.{}.observed_seconds_total"),
    *_both_directions("pcie_throughput_bytes_per_second", "pcie.{}.bytes_per_second"),
    *_both_directions("pcie_throughput_peak_bytes_per_second", "pcie.{}.peak_bytes_per_second"),
    *_both_directions("pcie_observed_ratio", "pcie.{}.observed_ratio"),
    *_both_directions("pcie_saturation_ratio", "pcie.{}.saturation_ratio"),
    *_both_directions("pcie_saturated_seconds_total", "pcie.{}.saturated_seconds_total"),
    _Row("pcie_capacity_bytes_per_second", ("ceiling",), attrgetter("pcie.ceiling_bytes_per_second")),
    _Row("pcie_capacity_bytes_per_second", ("attainable",), attrgetter("pcie.attainable_bytes_per_second")),
    _Row("pcie_link_downtrained", (), lambda view: _judged(view.pcie)),
)
_NVLINK_ROWS: tuple[_Row, ...] = (
    *_both_directions("nvlink_bytes_total", "nvlink.{}.bytes_total"),
    *_both_directions("nvlink_saturation_ratio", "nvlink.{}.saturation_ratio"),
    *_both_directions("nvlink_saturated_seconds_total", "nvlink.{}.saturated_seconds_total"),
    _Row("nvlink_capacity_bytes_per_second", (), attrgetter("nvlink.attainable_bytes_per_second")),
)


def add_card(out: Families, view: CardView, wall_minus_mono_s: float, dropped: Counter[str]) -> None:
    """Add the series of one card.

    Args:
        wall_minus_mono_s: what turns the tick's monotonic seconds into Unix time.
        dropped: counts series left out, by reason.
    """
    identity = view.card.identity
    gpu = (str(identity.index), identity.uuid)
    numa_node = str(identity.numa_node) if identity.numa_node >= 0 else ""
    name = shown_text(identity.name)
    out.add("gpu_info", (*gpu, name, identity.pci_address, identity.architecture, numa_node), 1.0)
    out.add("gpu_up", gpu, float(view.tick.up))
    out.add("gpu_last_sample_timestamp_seconds", gpu, round(view.tick.last_sample_s + wall_minus_mono_s, 3))
    _add_xids(out, gpu, view, dropped)
    if not view.tick.up:
        return
    features = view.card.capabilities.features
    for feature in FEATURES:
        out.add("gpu_capability", (*gpu, feature), float(feature in features))
    for row in _ROWS:
        out.add(row.metric, gpu + row.labels, row.value(view))
    if view.nvlink is not None:
        for row in _NVLINK_ROWS:
            out.add(row.metric, gpu + row.labels, row.value(view))
    _add_throttling(out, gpu, view)
    for part in view.card.mig_slices:
        out.add("gpu_mig_info", (*gpu, part.mig_uuid, shown_text(part.profile)), 1.0)
        used = view.tick.mig_memory_used_bytes.get(part.mig_uuid, math.nan)
        out.add("gpu_mig_memory_used_bytes", (*gpu, part.mig_uuid), used)


def _add_xids(out: Families, gpu: tuple[str, str], view: CardView, dropped: Counter[str]) -> None:
    newest_first = sorted(view.xids.items(), key=lambda item: item[1][1], reverse=True)
    for xid, (count, last_wall_s) in newest_first[:MAX_XIDS]:
        out.add("gpu_xid_errors_total", (*gpu, str(xid)), count)
        out.add("gpu_xid_last_timestamp_seconds", (*gpu, str(xid)), round(last_wall_s, 3))
    if len(newest_first) > MAX_XIDS:
        dropped["xids"] += 2 * (len(newest_first) - MAX_XIDS)


def _add_throttling(out: Families, gpu: tuple[str, str], view: CardView) -> None:
    for reason in _TIMED_REASONS:
        out.add("gpu_throttle_seconds_total", (*gpu, reason), _throttle_seconds(view, reason))
    if THROTTLE in view.tick.faults:
        return
    reasons = view.tick.throttle_reasons
    for reason in _HARD_REASONS:
        out.add("gpu_throttled", (*gpu, reason), float(reason in reasons))
    out.add("gpu_throttled", (*gpu, "setting"), float(not reasons.isdisjoint(_SETTING_REASONS)))
    out.add("gpu_throttled", (*gpu, "unknown"), float(not reasons <= _NAMED_REASONS))


def _throttle_seconds(view: CardView, reason: str) -> float:
    """Return the time under a reason; missing where neither the driver's counter nor the reasons can be read."""
    if THROTTLE in view.tick.faults and THROTTLE_SECONDS_KEYS[reason] not in view.counters:
        return math.nan
    return view.throttle_seconds_total.get(reason, math.nan)


def _judged(link: LinkView) -> float:
    return math.nan if link.downtrained is None else float(link.downtrained)
