"""Half a minute of ticks as one compressed block, column by column, and back.

A block holds ticks of one card list, one topology and one set of node facts, so it can be read alone. Inside, numbers
are codes of `grid.py` in columns of `columns.py`; what seldom changes is a list of (tick number, new value).
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np

from gpumon.model.card import Card, LinkSource, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.report import Report
from gpumon.model.samples import CardTick, Event, Floats, GpuProcess, LinkSlots, SamplerStats, Series, Tick
from gpumon.model.topology import NodeFacts, Topology
from gpumon.recording.columns import pack, unpack
from gpumon.recording.grid import HOST_STEPS, SERIES_STEPS, SLOT_STEPS, TIME, LogStep, Step, reading_step
from gpumon.recording.processes import ProcessTableRecord, from_record, to_record

# Half a megabyte of dictionary holds a whole block and keeps the compressor's memory near 6 MiB.
_FILTERS: tuple[dict[str, int], ...] = ({"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 1 << 19, "lc": 2, "lp": 1},)
MAX_BLOCK_BYTES = 1 << 26  # a block claiming more than this when unpacked is no recording of ours

_T = TypeVar("_T")
Changes = list[tuple[int, _T]]


class SlotsBlock(msgspec.Struct, array_like=True):
    """LinkSlots of one card over the block. `gap` is t0 less the previous t1, `length` is t1 - t0, in TIME codes."""

    sources: Changes[LinkSource]
    counts: bytes
    start: int
    gap: bytes
    length: bytes
    columns: dict[str, bytes]


class SeriesBlock(msgspec.Struct, array_like=True):
    """One Series of one card over the block."""

    counts: bytes
    times: bytes
    values: bytes


class CardBlock(msgspec.Struct, array_like=True):
    """One card over the block."""

    up: bytes
    fault: Changes[Fault | None]
    last_sample: bytes
    pcie: SlotsBlock
    nvlink: SlotsBlock
    power_kind: Changes[PowerKind]
    series: dict[str, SeriesBlock]
    readings: dict[str, bytes]
    faults: Changes[dict[str, Fault]]
    throttle_reasons: Changes[frozenset[str]]
    processes: Changes[tuple[GpuProcess, ...] | None]
    processes_s: bytes
    mig_memory: Changes[dict[str, float]]


class Block(msgspec.Struct, array_like=True):
    """All of it."""

    node: NodeFacts
    cards: tuple[Card, ...]
    topology: Topology
    seq: bytes
    mono: bytes
    wall_ms: bytes
    nvml_up: bytes
    nvml_fault: Changes[Fault | None]
    card_blocks: list[CardBlock]
    tables: Changes[ProcessTableRecord]
    host: dict[str, bytes]
    aer: Changes[dict[str, dict[str, float]]]
    events: Changes[tuple[Event, ...]]
    reports: Changes[tuple[Report, ...]] = []  # recordings made before jobs could report have none


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Block)


def encode(ticks: Sequence[Tick]) -> bytes:
    """Return ticks of one card list as a compressed block. The ticks must lie on the grid (`on_grid`)."""
    first = ticks[0]
    block = Block(
        node=first.node,
        cards=first.cards,
        topology=first.topology,
        seq=pack(_ints(tick.seq for tick in ticks), delta=True),
        mono=pack(TIME.encode(_floats(tick.mono_s for tick in ticks)), delta=True),
        wall_ms=pack(_ints(round(tick.wall_s * 1000) for tick in ticks), delta=True),
        nvml_up=bytes(tick.nvml_up for tick in ticks),
        nvml_fault=_changes(tick.nvml_fault for tick in ticks),
        card_blocks=[_encode_card([tick.card_ticks[n] for tick in ticks]) for n in range(len(first.cards))],
        tables=[(n, to_record(table)) for n, table in _changes_by_identity(tick.processes for tick in ticks)],
        host={
            name: pack(step.encode(_floats(getattr(tick.host, name) for tick in ticks)), delta=True)
            for name, step in HOST_STEPS.items()
        },
        aer=_changes({uuid: dict(kinds) for uuid, kinds in tick.host.aer_errors.items()} for tick in ticks),
        events=[(n, tick.events) for n, tick in enumerate(ticks) if tick.events],
        reports=[(n, tick.reports) for n, tick in enumerate(ticks) if tick.reports],
    )
    return lzma.compress(_ENCODER.encode(block), format=lzma.FORMAT_RAW, filters=_FILTERS)


def decode(data: bytes) -> Iterator[Tick]:
    """Yield the ticks of a block. Raises ValueError (or its kind) for bytes that `encode` did not make."""
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        block = _DECODER.decode(unpacker.decompress(data, MAX_BLOCK_BYTES))
    except (lzma.LZMAError, msgspec.MsgspecError, EOFError) as error:
        raise ValueError(str(error)) from None
    count = len(block.nvml_up)
    cards = [
        _CardColumns(card.identity.uuid, column, count)
        for card, column in zip(block.cards, block.card_blocks, strict=True)
    ]
    seq, wall_ms = unpack(block.seq), unpack(block.wall_ms)
    mono_s = TIME.decode(unpack(block.mono))
    host = {name: HOST_STEPS[name].decode(unpack(column)) for name, column in block.host.items()}
    aer, faults = _Held(block.aer, {}), _Held(block.nvml_fault, None)
    tables = _Held([(n, from_record(record)) for n, record in block.tables], ProcessTable())
    events, reports = dict(block.events), dict(block.reports)
    for n in range(count):
        yield Tick(
            seq=int(seq[n]),
            mono_s=float(mono_s[n]),
            wall_s=int(wall_ms[n]) / 1000,
            nvml_up=bool(block.nvml_up[n]),
            nvml_fault=faults.at(n),
            node=block.node,
            cards=block.cards,
            topology=block.topology,
            card_ticks=tuple(card.at(n) for card in cards),
            processes=tables.at(n),
            host=HostSample(**{name: float(column[n]) for name, column in host.items()}, aer_errors=aer.at(n)),
            events=events.get(n, ()),
            reports=reports.get(n, ()),
            sampler=SamplerStats(),
        )


def _encode_card(ticks: Sequence[CardTick]) -> CardBlock:
    keys = sorted({key for tick in ticks for key in tick.readings})
    return CardBlock(
        up=bytes(tick.up for tick in ticks),
        fault=_changes(tick.fault for tick in ticks),
        last_sample=pack(TIME.encode(_floats(tick.last_sample_s for tick in ticks)), delta=True),
        pcie=_encode_slots([tick.pcie for tick in ticks]),
        nvlink=_encode_slots([tick.nvlink for tick in ticks]),
        power_kind=_changes(tick.power_kind for tick in ticks),
        series={
            name: _encode_series(step, [getattr(tick, name) for tick in ticks]) for name, step in SERIES_STEPS.items()
        },
        readings={
            key: pack(reading_step(key).encode(_floats(tick.reading(key) for tick in ticks)), delta=True)
            for key in keys
        },
        faults=_changes(dict(tick.faults) for tick in ticks),
        throttle_reasons=_changes(tick.throttle_reasons for tick in ticks),
        processes=_changes(tick.processes for tick in ticks),
        processes_s=pack(TIME.encode(_floats(tick.processes_s for tick in ticks)), delta=True),
        mig_memory=_changes(dict(tick.mig_memory_used_bytes) for tick in ticks),
    )


def _encode_slots(slots: Sequence[LinkSlots]) -> SlotsBlock:
    t0 = TIME.encode(_joined([one.t0_s for one in slots]))
    t1 = TIME.encode(_joined([one.t1_s for one in slots]))
    start = int(t0[0]) if t0.size else 0
    return SlotsBlock(
        sources=_changes(one.source for one in slots),
        counts=pack(_ints(one.t0_s.size for one in slots)),
        start=start,
        gap=pack(t0 - np.concatenate((np.array([start], np.int64), t1[:-1]))) if t0.size else pack(t0),
        length=pack(t1 - t0),
        columns={
            name: pack(step.encode(_joined([getattr(one, name) for one in slots]))) for name, step in SLOT_STEPS.items()
        },
    )


def _encode_series(step: Step, series: Sequence[Series]) -> SeriesBlock:
    return SeriesBlock(
        counts=pack(_ints(one.t_s.size for one in series)),
        times=pack(TIME.encode(_joined([one.t_s for one in series])), delta=True),
        values=pack(step.encode(_joined([one.value for one in series])), delta=True),
    )


class _CardColumns:
    """The unpacked columns of one card; `at(n)` builds the CardTick of one tick."""

    def __init__(self, uuid: str, block: CardBlock, count: int) -> None:
        self._uuid = uuid
        self._up = block.up
        self._fault = _Held(block.fault, None)
        self._last = TIME.decode(unpack(block.last_sample))
        self._links = {"pcie": _slot_parts(block.pcie, count), "nvlink": _slot_parts(block.nvlink, count)}
        self._sources = {"pcie": _Held(block.pcie.sources, None), "nvlink": _Held(block.nvlink.sources, None)}
        self._power_kind = _Held(block.power_kind, PowerKind.NONE)
        self._series = {name: _series_parts(SERIES_STEPS[name], one) for name, one in block.series.items()}
        self._readings = {key: reading_step(key).decode(unpack(column)) for key, column in block.readings.items()}
        self._faults = _Held(block.faults, {})
        self._throttle = _Held(block.throttle_reasons, frozenset())
        self._processes = _Held(block.processes, None)
        self._processes_s = TIME.decode(unpack(block.processes_s))
        self._mig = _Held(block.mig_memory, {})

    def at(self, n: int) -> CardTick:
        return CardTick(
            uuid=self._uuid,
            up=bool(self._up[n]),
            fault=self._fault.at(n),
            last_sample_s=float(self._last[n]),
            pcie=self._slots("pcie", n),
            nvlink=self._slots("nvlink", n),
            power_kind=self._power_kind.at(n),
            readings={key: float(column[n]) for key, column in self._readings.items() if column[n] == column[n]},
            faults=self._faults.at(n),
            throttle_reasons=self._throttle.at(n),
            processes=self._processes.at(n),
            processes_s=float(self._processes_s[n]),
            mig_memory_used_bytes=self._mig.at(n),
            **{name: parts[n] for name, parts in self._series.items()},
        )

    def _slots(self, link: str, n: int) -> LinkSlots:
        source = self._sources[link].at(n)
        columns = {name: parts[n] for name, parts in self._links[link].items()}
        return LinkSlots(**columns, source=source)


def _slot_parts(block: SlotsBlock, count: int) -> dict[str, list[Floats]]:
    counts = unpack(block.counts)
    length = unpack(block.length)
    gap = unpack(block.gap)
    t1 = block.start + np.cumsum(gap + length)
    columns = {"t0_s": TIME.decode(t1 - length), "t1_s": TIME.decode(t1)}
    steps: dict[str, Step | LogStep] = SLOT_STEPS
    # An older gpumon wrote a column more.
    columns |= {name: steps[name].decode(unpack(column)) for name, column in block.columns.items() if name in steps}
    edges = np.cumsum(counts)[:-1]
    parts = {name: np.split(column, edges) for name, column in columns.items()}
    if len(counts) != count:
        raise ValueError("slot counts do not fit the ticks")
    return parts


def _series_parts(step: Step, block: SeriesBlock) -> list[Series]:
    edges = np.cumsum(unpack(block.counts))[:-1]
    times = np.split(TIME.decode(unpack(block.times)), edges)
    values = np.split(step.decode(unpack(block.values)), edges)
    return [Series(t_s=t, value=value) for t, value in zip(times, values, strict=True)]


@dataclass(slots=True)
class _Held:
    """A value that holds from one change to the next; read with rising tick numbers."""

    changes: Sequence[tuple[int, Any]]
    value: Any
    _next: int = field(default=0)

    def at(self, n: int) -> Any:
        while self._next < len(self.changes) and self.changes[self._next][0] <= n:
            self.value = self.changes[self._next][1]
            self._next += 1
        return self.value


def _changes(values: Iterator[_T] | Any) -> Changes[_T]:
    return _changes_where(values, lambda left, right: left == right)


def _changes_by_identity(values: Any) -> Changes[Any]:
    return _changes_where(values, lambda left, right: left is right)


def _changes_where(values: Any, same: Callable[[Any, Any], bool]) -> Changes[Any]:
    changes: Changes[Any] = []
    for n, value in enumerate(values):
        if not changes or not same(changes[-1][1], value):
            changes.append((n, value))
    return changes


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.empty(0)


def _ints(values: Any) -> Any:
    return np.fromiter(values, np.int64)


def _floats(values: Any) -> Floats:
    return np.fromiter(values, np.float64)
