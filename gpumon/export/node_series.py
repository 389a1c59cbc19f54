"""Series of the node and of gpumon itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.export.family import Families
from gpumon.model.fault import Fault
from gpumon.model.samples import SamplerStats
from gpumon.model.text import shown_text
from gpumon.model.topology import NodeFacts
from gpumon.model.view import NodeView

# Names of readers and reasons are gpumon's own and few; the caps keep the node within 100 series if that changes.
MAX_SOURCES = 10
MAX_REASONS = 16
MAX_NODE_FINDINGS = 8
MAX_MISSING = 12
# Why a card goes without a reading for good. What failed once is counted in nvml_errors_total.
_LASTING = (Fault.NOT_SUPPORTED, Fault.NO_PERMISSION)
_PCI_DRIVERS = ("nvidia", "vfio-pci", "nouveau", "none")


@dataclass(frozen=True, slots=True)
class Build:
    """Versions in `build_info`."""

    version: str
    python: str
    bindings: str  # nvidia-ml-py


def add_node(out: Families, view: NodeView, gpu_indices: Mapping[str, str], dropped: Counter[str]) -> None:
    """Add what is known of the node's cards and links as a whole.

    Args:
        gpu_indices: label `gpu` by card UUID.
        dropped: counts series left out, by reason.
    """
    out.add("nvml_up", (), float(view.nvml_up))
    if view.nvml_up:
        up = sum(card.tick.up for card in view.cards)
        out.add("node_gpus", ("up",), float(up))
        out.add("node_gpus", ("lost",), float(len(view.cards) - up))
        _add_missing(out, view, dropped)
    if view.gpus_expected:
        out.add("node_gpus_expected", (), float(view.gpus_expected))
    drivers = Counter(gpu.driver for gpu in view.topology.pci_gpus)
    for driver in _PCI_DRIVERS:
        out.add("node_pci_gpus", (driver,), float(drivers[driver]))
    for uplink in view.uplinks:
        out.add("pcie_uplink_saturation_ratio", (uplink.address, "rx"), uplink.rx_saturation_ratio)
        out.add("pcie_uplink_saturation_ratio", (uplink.address, "tx"), uplink.tx_saturation_ratio)
        for uuid in uplink.uuids:
            out.add("pcie_uplink_info", (uplink.address, gpu_indices.get(uuid, ""), uuid), 1.0)
    for pair in view.topology.p2p:
        peer = (gpu_indices.get(pair.peer_uuid, ""), pair.peer_uuid)
        out.add("gpu_p2p_info", (gpu_indices.get(pair.uuid, ""), pair.uuid, *peer, pair.path, pair.p2p), 1.0)
    for finding in view.findings[:MAX_NODE_FINDINGS]:
        out.add("node_finding", (finding.finding, finding.severity, finding.audience), 1.0)
    if len(view.findings) > MAX_NODE_FINDINGS:
        dropped["findings"] += len(view.findings) - MAX_NODE_FINDINGS


def _add_missing(out: Families, view: NodeView, dropped: Counter[str]) -> None:
    """Add which readings cards go without: a driver that renamed a call must not take a series away in silence."""
    missing = Counter(
        (reading, fault.value)
        for card in view.cards
        if card.tick.up
        for reading, fault in card.tick.faults.items()
        if fault in _LASTING and reading not in card.counters
    )
    rows = sorted(missing.items())
    for (reading, reason), cards in rows[:MAX_MISSING]:
        out.add("node_readings_missing", (reading, reason), float(cards))
    if len(rows) > MAX_MISSING:
        dropped["readings_missing"] += len(rows) - MAX_MISSING


def add_self(
    out: Families,
    build: Build,
    node: NodeFacts,
    sampler: SamplerStats,
    *,
    wall_minus_mono_s: float,
    dropped: Counter[str],
) -> None:
    """Add gpumon's own series: all that a scrape still gets when the newest tick is too old."""
    out.add("build_info", (build.version, build.python, build.bindings), 1.0)
    facts = (node.hostname, node.virtualization, node.kernel, node.driver_version)
    out.add("node_info", tuple(map(shown_text, facts)), 1.0)
    out.add("node_simulated", (), float(node.simulated))
    for source in _capped(sampler.samples, MAX_SOURCES, dropped, series_each=4):
        out.add("samples_total", (source,), sampler.samples[source])
        out.add("samples_missed_total", (source,), sampler.missed.get(source, 0))
        out.add("sample_duration_seconds", (source,), sampler.duration_seconds.get(source, math.nan))
        last_s = sampler.last_sample_s.get(source, math.nan)
        out.add("last_sample_timestamp_seconds", (source,), round(last_s + wall_minus_mono_s, 3))
    for error in _capped(sampler.nvml_errors, MAX_REASONS, dropped, series_each=1):
        out.add("nvml_errors_total", (error,), sampler.nvml_errors[error])
    for reason in _capped(sampler.rejected, MAX_REASONS, dropped, series_each=1):
        out.add("readings_rejected_total", (reason,), sampler.rejected[reason])
    out.add("sampler_cpu_seconds_total", (), sampler.cpu_seconds)
    out.add("driver_seconds_total", (), sampler.driver_seconds)


def _capped(values: Mapping[str, object], most: int, dropped: Counter[str], series_each: int) -> list[str]:
    """Return the first names in alphabetical order, which stays the same from tick to tick."""
    names = sorted(values)
    if len(names) > most:
        dropped["sources"] += series_each * (len(names) - most)
    return names[:most]
