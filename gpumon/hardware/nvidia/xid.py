"""Xid events as the driver delivers them, waited for in a thread of their own.

Source: nvmlEventSetWait_v2. Only events after registration are seen. Linux only.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable

from gpumon.hardware.nvml import Device, Driver, Meter, address, event_data, fault_of, run, sleeping, symbol
from gpumon.hardware.reader import XidEvent
from gpumon.model.card import Card
from gpumon.model.fault import Fault

# One wait inside the driver: how long shutting down may have to wait for this thread.
_WAIT_S = 0.5


_XID_EVENTS = 0x8  # nvmlEventTypeXidCriticalError


class _EventSet:
    """An event set registered for Xids of several cards."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._set = ctypes.c_void_p()
        self._uuids: dict[int, str] = {}  # address of a handle -> UUID
        self._event = event_data()

    def register(self, device: Device, uuid: str) -> Fault | None:
        """Add a card. NOT_SUPPORTED where it has no Xid events: registering an unsupported bit fails as a whole."""
        types = device.event_types()
        if isinstance(types, Fault):
            return types
        if not types & _XID_EVENTS:
            return Fault.NOT_SUPPORTED
        if not self._set:
            fault = device.call("nvmlEventSetCreate", ctypes.byref(self._set))
            if fault is not None:
                return fault
        fault = device.fill("nvmlDeviceRegisterEvents", ctypes.c_ulonglong(_XID_EVENTS), self._set)
        if fault is None:
            self._uuids[address(device.handle)] = uuid
        return fault

    def wait(self, timeout_ms: int) -> tuple[str, int] | Fault:
        """Return (UUID, Xid) of the next event; TIMEOUT when none came, maybe earlier than asked.

        UUID "" for a card that is not ours. An Xid of 999 is NVML's "unknown".
        """
        with sleeping(self._meter):
            code = run(self._meter, symbol("nvmlEventSetWait_v2"), self._set, ctypes.byref(self._event), timeout_ms)
        if code:
            return fault_of(code)
        return self._uuids.get(address(self._event.device), ""), int(self._event.eventData)

    def close(self) -> None:
        """Free the set, before the library is shut down."""
        if self._set:
            run(self._meter, symbol("nvmlEventSetFree"), self._set)
            self._set = ctypes.c_void_p()


class XidWatch:
    """Waits for Xids on all cards; registers anew after each re-initialisation."""

    def __init__(self, driver: Driver, meter: Meter) -> None:
        self._driver = driver
        self._meter = meter
        self._generation = 0
        self._stopped = False
        self._set: _EventSet | Fault = Fault.DRIVER_NOT_LOADED

    def events(self, cards: Iterable[Card], timeout_s: float) -> tuple[XidEvent, ...] | Fault:
        """Wait up to timeout_s and return what came, at once when something did.

        NOT_SUPPORTED where no card has such events.
        """
        if self._stopped or not self._driver.up:
            return Fault.DRIVER_NOT_LOADED
        if self._generation != self._driver.generation:
            self._generation = self._driver.generation
            self._set = self._register(cards)
        if isinstance(self._set, Fault):
            return self._set
        end_s = time.monotonic() + timeout_s
        while not self._stopped:
            left_s = max(0.0, end_s - time.monotonic())
            event = self._set.wait(round(1e3 * min(left_s, _WAIT_S)))
            if isinstance(event, tuple):
                return (XidEvent(time.monotonic(), *event),)
            if event is not Fault.TIMEOUT:
                return event
            if left_s <= 0.0:
                return ()
        return Fault.DRIVER_NOT_LOADED

    def _register(self, cards: Iterable[Card]) -> _EventSet | Fault:
        events, registered = _EventSet(self._meter), 0
        for card in cards:
            device = self._driver.device_named(card.identity.uuid, self._meter)
            if not isinstance(device, Fault):
                registered += events.register(device, card.identity.uuid) is None
        return events if registered else Fault.NOT_SUPPORTED

    def stop(self) -> None:
        """Let the waiting thread come back, within _WAIT_S."""
        self._stopped = True

    def close(self) -> None:
        """Free the event set before the library is shut down."""
        if isinstance(self._set, _EventSet):
            self._set.close()
        self._set, self._generation, self._stopped = Fault.DRIVER_NOT_LOADED, 0, False
