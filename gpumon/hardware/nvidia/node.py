"""The driver as a whole: the `NodeReader` of `hardware.reader` over NVML, with procfs and sysfs beside it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from gpumon.hardware.nvidia.card import CardAccess, NvmlCardReader
from gpumon.hardware.nvidia.inventory import absent_cards, unusable
from gpumon.hardware.nvidia.probe import identify, mig_slices, probe
from gpumon.hardware.nvidia.xid import XidWatch
from gpumon.hardware.nvml import Device, Driver, Meter, Refused
from gpumon.hardware.reader import XidEvent
from gpumon.hardware.roots import default_procfs_root, default_sysfs_root
from gpumon.hardware.standing import node_facts
from gpumon.hardware.sysfs import read_topology, refresh_links
from gpumon.model.card import Card, CardIdentity
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.topology import NodeFacts, P2p, Topology

# Without persistence mode the driver brings each card up at the first look: 1 to 3 s (NVIDIA persistence document).
# A card that has not answered after this is given up for now; its thread cannot be ended.
_PROBE_TIMEOUT_S = 10.0
# Shutting down waits this long for calls still inside the library.
_DRAIN_S = 1.0
# nvmlGpuTopologyLevel_t.
_PATHS = {0: "internal", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# nvmlGpuP2PStatus_t; the worse of reading and writing is told.
_P2P = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled",
    5: "not_supported",
}
_READ, _WRITE = 0, 1

_Answer = TypeVar("_Answer")


class NvmlNode:
    """All cards of the node through the driver's library.

    `open` and `close` belong to one thread, `xid_events` to another, each card reader to its own; `topology` may be
    asked from any.
    """

    def __init__(
        self,
        *,
        procfs_root: Path | None = None,
        sysfs_root: Path | None = None,
        probe_timeout_s: float = _PROBE_TIMEOUT_S,
    ) -> None:
        """Nothing is loaded or opened before `open`."""
        self._procfs_root = procfs_root or default_procfs_root()
        self._sysfs_root = sysfs_root or default_sysfs_root()
        self._probe_timeout_s = probe_timeout_s
        self._driver = Driver()
        # Held while handles are looked up or used outside the readers: none of that may overlap opening or closing.
        self._handles = threading.Lock()
        self._meters: dict[str, Meter] = {}  # by UUID, and by what else calls the driver
        # By UUID; emptied at each opening, since another driver may answer more.
        self._refused: dict[str, Refused] = {}
        self._xids = XidWatch(self._driver, self._meter("xid"))
        self._known: dict[str, Card] = {}
        self._cards: tuple[Card, ...] = ()
        self._readers: list[NvmlCardReader] = []
        self._version = ""

    def _meter(self, key: str) -> Meter:
        return self._meters.setdefault(key, Meter())

    def open(self) -> Sequence[Card] | Fault:
        """Initialise the driver interface and probe every card at the same time.

        A card known from before that is not there now is returned with its fault, under its last UUID and address.
        """
        if not self._handles.acquire(timeout=_DRAIN_S):
            return Fault.TIMEOUT
        try:
            return self._open()
        finally:
            self._handles.release()

    def _open(self) -> Sequence[Card] | Fault:
        fault = self._driver.initialise()
        if fault is not None:
            return fault
        count = self._driver.device_count()
        if isinstance(count, Fault):
            self._driver.shut_down()
            return count
        version = self._driver.version()
        self._version = "" if isinstance(version, Fault) else version
        self._refused.clear()
        found = _together([self._finder(index) for index in range(count)], self._probe_timeout_s)
        refusals = {index: answer for index, answer in enumerate(found) if isinstance(answer, Fault)}
        if refusals and set(refusals.values()) == {Fault.NO_PERMISSION} and len(refusals) == count:
            self._driver.shut_down()
            return Fault.NO_PERMISSION
        usable = [answer for answer in found if not isinstance(answer, Fault)]
        uuids = {identity.pci_address: identity.uuid for _, identity in usable}
        probed = _together(
            [self._prober(device, identity, uuids) for device, identity in usable], self._probe_timeout_s
        )
        cards = tuple(
            unusable(identity, answer, self._known.get(identity.uuid)) if isinstance(answer, Fault) else answer
            for (_, identity), answer in zip(usable, probed, strict=True)
        )
        self._cards = cards + absent_cards(cards, self._known, refusals, self._procfs_root, self._sysfs_root)
        self._known = {card.identity.uuid: card for card in self._cards}
        return self._cards

    def _finder(self, index: int) -> Callable[[], tuple[Device, CardIdentity] | Fault]:
        def find() -> tuple[Device, CardIdentity] | Fault:
            device = self._driver.device_at(index, self._meter(f"index {index}"))
            if isinstance(device, Fault):
                return device
            identity = identify(device, index)
            return identity if isinstance(identity, Fault) else (device, identity)

        return find

    def _prober(
        self, found: Device, identity: CardIdentity, uuids_by_address: Mapping[str, str]
    ) -> Callable[[], Card | Fault]:
        def ask() -> Card | Fault:
            # The same handle, counted from here on under the card's own name.
            uuid = identity.uuid
            device = Device(found.handle, self._meter(uuid), self._refused.setdefault(uuid, {}))
            return probe(device, identity, uuids_by_address)

        return ask

    def card_reader(self, card: Card, clock: Clock) -> NvmlCardReader:
        """Return a reader for one probed card, for use by one thread with its own clock.

        A card that is absent has one too: it looks for the card now and then.
        """
        access = CardAccess(self._driver, self._meter(card.identity.uuid), self._refused, self._procfs_root)
        reader = NvmlCardReader(access, card, clock)
        self._readers.append(reader)
        return reader

    def close(self) -> None:
        """Shut the interface down; no device file stays open. Only after every poller was drained.

        While a call is still inside the library it is left initialised: shutting down under a call has crashed other
        monitors (XuehaiPan/nvitop#222). The next `open` then gets new handles only.
        """
        if not self._driver.up or not self._handles.acquire(timeout=_DRAIN_S):
            return
        try:
            self._close()
        finally:
            self._handles.release()

    def _close(self) -> None:
        self._xids.stop()
        until_s = time.monotonic() + _DRAIN_S
        while any(meter.busy_since for meter in tuple(self._meters.values())):
            if time.monotonic() > until_s:
                return
            time.sleep(0.01)
        for reader in self._readers:
            reader.close()
        self._readers.clear()
        self._xids.close()
        self._driver.shut_down()

    def xid_events(self, timeout_s: float) -> Sequence[XidEvent] | Fault:
        """Wait for Xid events up to timeout_s. In a thread of its own."""
        return self._xids.events([card for card in self._cards if card.fault is None], timeout_s)

    def facts(self) -> NodeFacts:
        """Where gpumon stands; readable without a driver."""
        return node_facts(self._version, procfs_root=self._procfs_root, sysfs_root=self._sysfs_root)

    def topology(self, cards: Sequence[Card]) -> Topology:
        """Read the PCI tree and the driver's word on peer access."""
        pairs: tuple[P2p, ...] = ()
        if self._handles.acquire(timeout=_DRAIN_S):
            try:
                if self._driver.up:
                    pairs = self._p2p([card for card in cards if card.fault is None])
            finally:
                self._handles.release()
        return read_topology(
            cards,
            pairs,
            self.facts(),
            sysfs_root=self._sysfs_root,
            procfs_root=self._procfs_root,
        )

    def links(self, topology: Topology) -> Topology:
        """Read the links above the cards' own again, without a driver call; the same object when nothing changed."""
        return refresh_links(topology, sysfs_root=self._sysfs_root)

    def reconfigured(self) -> bool:
        """Return whether a board was cut into other slices than it was probed with. Asks only boards that can be."""
        boards = [card for card in self._cards if card.fault is None and "mig" in card.capabilities.features]
        if not boards or not self._handles.acquire(timeout=_DRAIN_S):
            return False
        try:
            return self._driver.up and any(self._is_cut_anew(card) for card in boards)
        finally:
            self._handles.release()

    def _is_cut_anew(self, card: Card) -> bool:
        device = self._driver.device_named(card.identity.uuid, self._meter("mig"))
        if isinstance(device, Fault):
            return False
        enabled = device.mig_enabled()
        if isinstance(enabled, Fault):
            return False
        slices = tuple(part for _, part in mig_slices(device)) if enabled else ()
        return (enabled, slices) != (card.mig_enabled, card.mig_slices)

    def _p2p(self, cards: Sequence[Card]) -> tuple[P2p, ...]:
        meter = self._meter("topology")
        devices = {}
        for card in cards:
            device = self._driver.device_named(card.identity.uuid, meter)
            if not isinstance(device, Fault):
                devices[card.identity.uuid] = device
        return tuple(
            _pair(one, other, devices[one.identity.uuid], devices[other.identity.uuid])
            for one, other in combinations(cards, 2)
            if one.identity.uuid in devices and other.identity.uuid in devices
        )

    def errors(self) -> Mapping[str, int]:
        """Failed calls so far by Fault value; an unsupported call counts once per card and feature."""
        return _sum(meter.errors for meter in (self._driver.meter, *self._meters.values()))

    def rejected(self) -> Mapping[str, int]:
        """Readings thrown away so far by reason."""
        return _sum(meter.rejected for meter in self._meters.values())

    def driver_seconds(self) -> float:
        """Time spent inside driver calls so far, less the sleep of window and event calls."""
        return self._driver.meter.seconds + sum(meter.seconds for meter in tuple(self._meters.values()))

    def driver_held_seconds(self) -> float:
        """The same without waiting for a processor or a lock: what the driver itself needed."""
        return self._driver.meter.held_seconds + sum(meter.held_seconds for meter in tuple(self._meters.values()))


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(dict(each))
    return dict(total)


def _pair(one: Card, other: Card, device: Device, peer: Device) -> P2p:
    """Return what the driver says about a pair: a claim, not a measurement."""
    links = _links_between(one, other)
    level = device.topology_level(peer)
    path = f"NV{links}" if links else "unknown" if isinstance(level, Fault) else _PATHS.get(level, "unknown")
    statuses = (device.p2p_status(peer, _READ), device.p2p_status(peer, _WRITE))
    told = [status for status in statuses if not isinstance(status, Fault)]
    return P2p(one.identity.uuid, other.identity.uuid, path, _P2P.get(max(told), "unknown") if told else "unknown")


def _links_between(one: Card, other: Card) -> int:
    """Return how many NVLinks join two cards: their own, or all of either when both hang on a switch."""
    direct = one.nvlink.peers.count(other.identity.uuid)
    if direct:
        return direct
    return min(one.nvlink.peers.count("switch"), other.nvlink.peers.count("switch"))


def _together(calls: Sequence[Callable[[], _Answer | Fault]], timeout_s: float) -> list[_Answer | Fault]:
    """Run calls at the same time and return their answers in order, TIMEOUT for one that has not come back.

    The threads are daemons: one that hangs inside the driver cannot be ended, and must not keep gpumon from ending.
    """
    answers: list[_Answer | Fault] = [Fault.TIMEOUT] * len(calls)

    def run(place: int) -> None:
        answers[place] = calls[place]()

    threads = [
        threading.Thread(target=run, args=(place,), name=f"probe-{place}", daemon=True) for place in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return list(answers)
