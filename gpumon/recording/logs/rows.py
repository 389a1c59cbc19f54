"""Rows of a log to ticks: one sample of one card after the other, in base units, to seconds of the node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.samples import CardTick, LinkSlots, Series, Tick
from gpumon.model.topology import NodeFacts, Topology

# Keys of Row.values that are no readings: traffic as the log's own 20 ms window or unknown mean.
RX, TX = "rx_bytes_per_second", "tx_bytes_per_second"
# nvidia-smi prints what nvmlDeviceGetPcieThroughput saw in 20 ms (nvml.h); the rest of the second was not seen.
WINDOW_S = 0.02
MIN_TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One card at one time. `values` has keys of model/fields.py, and RX, TX."""

    t_s: float
    gpu: int
    values: Mapping[str, float]
    name: str = ""
    uuid: str = ""
    throttle_reasons: frozenset[str] = frozenset()


def to_ticks(rows: Iterable[Row]) -> Iterator[Tick]:
    """Yield a tick for each second, or for each sample where the log is slower.

    Cards appear when their first row does; their number never falls. Times must not go back.
    """
    cards: dict[int, Card] = {}
    known: tuple[Card, ...] = ()
    pending: dict[int, list[Row]] = {}
    node = _node()
    seq = 0
    start_s = math.nan
    newest_s = math.nan
    for row in rows:
        if math.isnan(start_s):
            start_s = newest_s = row.t_s
        if row.t_s > newest_s and row.t_s >= start_s + MIN_TICK_S - 1e-6:
            # The samples of one instant belong to the tick that they end.
            yield _tick(seq, newest_s, known, pending, node)
            seq, pending, start_s = seq + 1, {}, row.t_s
        newest_s = max(newest_s, row.t_s)
        if row.gpu not in cards:
            cards[row.gpu] = _card(row)
            known = tuple(cards[gpu] for gpu in sorted(cards))
        pending.setdefault(row.gpu, []).append(row)
    if pending:
        yield _tick(seq, newest_s, known, pending, node)


def _tick(seq: int, mono_s: float, cards: tuple[Card, ...], pending: Mapping[int, list[Row]], node: NodeFacts) -> Tick:
    return Tick(
        seq=seq,
        mono_s=mono_s,
        wall_s=mono_s,
        nvml_up=True,
        nvml_fault=None,
        node=node,
        cards=cards,
        topology=_NO_TOPOLOGY,
        card_ticks=tuple(_card_tick(card, pending.get(card.identity.index)) for card in cards),
        processes=_NO_PROCESSES,
        host=_NO_HOST,
    )


def _card_tick(card: Card, rows: list[Row] | None) -> CardTick:
    if not rows:
        return CardTick(uuid=card.identity.uuid, up=True, fault=None, last_sample_s=math.nan)
    last = rows[-1]
    readings = {key: value for row in rows for key, value in row.values.items() if key not in (RX, TX)}
    return CardTick(
        uuid=card.identity.uuid,
        up=True,
        fault=None,
        last_sample_s=last.t_s,
        pcie=_slots(rows),
        power=_series(rows, "power_watts"),
        power_kind=PowerKind.UNKNOWN if "power_watts" in readings else PowerKind.NONE,
        utilization=_series(rows, "utilization_ratio"),
        memory_controller=_series(rows, "memory_controller_ratio"),
        sm_clock=_series(rows, "sm_clock_hertz"),
        readings=readings,
        throttle_reasons=last.throttle_reasons,
    )


def _series(rows: list[Row], key: str) -> Series:
    pairs = [(row.t_s, row.values[key]) for row in rows if key in row.values]
    return Series(t_s=np.array([t for t, _ in pairs]), value=np.array([value for _, value in pairs]))


def _slots(rows: list[Row]) -> LinkSlots:
    rows = [row for row in rows if RX in row.values or TX in row.values]
    if not rows:
        return LinkSlots()
    t1 = np.array([row.t_s for row in rows])
    return LinkSlots(
        t0_s=t1 - WINDOW_S,
        t1_s=t1,
        rx_bytes=np.array([row.values.get(RX, math.nan) for row in rows]) * WINDOW_S,
        tx_bytes=np.array([row.values.get(TX, math.nan) for row in rows]) * WINDOW_S,
        power_watts=np.array([row.values.get("power_watts", math.nan) for row in rows]),
        source=LinkSource.LOG,
    )


def _card(row: Row) -> Card:
    return Card(
        identity=CardIdentity(
            uuid=row.uuid or f"GPU-log-{row.gpu}",
            index=row.gpu,
            name=row.name,
            pci_address="",
            architecture="",
            minor=-1,
            numa_node=-1,
        ),
        capabilities=Capabilities(
            features=frozenset(),
            pcie_source=LinkSource.LOG,
            nvlink_source=LinkSource.NONE,
            power_kind=PowerKind.UNKNOWN,
            counter_bits=0,
        ),
        nvlink=NvLinkFacts(links=0, active=0, version="", bytes_per_second_per_direction=math.nan, peers=()),
    )


def _node() -> NodeFacts:
    return NodeFacts(
        hostname="",
        virtualization="",
        kernel="",
        driver_version="",
        cpu_count=0,
        simulated=False,
        standing="host",
        host_pids=False,
        boot_wall_s=math.nan,
    )


_NO_TOPOLOGY = Topology(flat=True)
_NO_PROCESSES = ProcessTable()
_NO_HOST = HostSample()
