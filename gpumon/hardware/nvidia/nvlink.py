"""NVLink of one card: its links and peers, and the bytes over all of them.

Sources: nvmlDeviceGetNvLinkState and its like for each link, until the card knows no further one (12 to 36 were seen,
by driver); fields 138 and 139 (KiB of data) or, on Blackwell, 202 and 204 (bytes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpumon.hardware.nvidia import fields
from gpumon.hardware.nvidia.fields import FieldBatch
from gpumon.hardware.nvml import Device
from gpumon.hardware.sysfs.pci import sysfs_address
from gpumon.model.card import NvLinkFacts
from gpumon.model.fault import Fault

NO_NVLINK = NvLinkFacts(links=0, active=0, version="", bytes_per_second_per_direction=math.nan, peers=())

# nvmlNvlinkVersion_t.
_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
# What the driver calls the speed of a link counts its coding from version 4 on: 18 links of an H100 read 478 GB/s and
# carry 450, those of a B200 956 and 900 (stas00/ml-engineering).
_USABLE_RATIO = {"4.0": 16 / 17, "5.0": 16 / 17}
_MEGABYTE = 1e6
_KIBIBYTE = 1024.0
INACTIVE = 0
_REMOTE_GPU, _REMOTE_SWITCH = 0, 2
# No card has more; the loop ends at the first link the driver does not know, long before.
_LINKS_MAX = 64


def states(device: Device) -> list[int] | Fault:
    """Return the state of each link: 0 inactive, 1 active, 2 asleep, 3 active without traffic. Empty without NVLink."""
    found = []
    for link in range(_LINKS_MAX):
        state = device.nvlink_state(link)
        if state is Fault.NOT_SUPPORTED:
            break
        if isinstance(state, Fault):
            return state
        found.append(state)
    return found


def probe(device: Device, uuids_by_address: Mapping[str, str]) -> NvLinkFacts:
    """Return the card's NVLink. A sleeping link counts as active: it wakes with traffic."""
    found = states(device)
    if isinstance(found, Fault) or not found:
        return NO_NVLINK
    active = [link for link, state in enumerate(found) if state != INACTIVE]
    version_number = device.nvlink_version(active[0] if active else 0)
    version = "" if isinstance(version_number, Fault) else _VERSIONS.get(version_number, "")
    return NvLinkFacts(
        links=len(found),
        active=len(active),
        version=version,
        bytes_per_second_per_direction=_link_rate(device) * _USABLE_RATIO.get(version, 1.0) * len(active)
        if active
        else math.nan,
        peers=tuple(_peer(device, link, uuids_by_address) for link in active),
    )


def _link_rate(device: Device) -> float:
    """Return one link's rate in one direction as the driver tells it."""
    values = FieldBatch(device, (fields.NVLINK_SPEED_COMMON,)).read()
    if isinstance(values, Fault) or isinstance(values[0], Fault) or values[0] <= 0:
        return math.nan
    return values[0] * _MEGABYTE


def _peer(device: Device, link: int, uuids_by_address: Mapping[str, str]) -> str:
    remote = device.nvlink_remote_type(link)
    if remote == _REMOTE_SWITCH:
        return "switch"
    bus_id = device.nvlink_remote_bus_id(link) if remote == _REMOTE_GPU else Fault.NOT_FOUND
    if isinstance(bus_id, Fault):
        return "unknown"
    return uuids_by_address.get(sysfs_address(bus_id), "unknown")


@dataclass(frozen=True, slots=True)
class NvLinkCounters:
    """Which fields of a card count NVLink bytes, and how much one count is."""

    receive: tuple[tuple[int, int], ...]  # (field id, scope), one entry, or one for each active link
    transmit: tuple[tuple[int, int], ...]
    unit_bytes: float

    @property
    def summed(self) -> bool:
        """Whether the driver adds the links up."""
        return self.receive[0][1] == fields.SCOPE_ALL


def find_counters(device: Device) -> NvLinkCounters | None:
    """Return the fields that this card answers, None when it has no NVLink byte counter."""
    found = states(device)
    active = [] if isinstance(found, Fault) else [link for link, state in enumerate(found) if state != INACTIVE]
    if not active:
        return None
    every = (fields.SCOPE_ALL,)
    for receive, transmit, scopes, unit in (  # best first
        (fields.NVLINK_DATA_RX, fields.NVLINK_DATA_TX, every, _KIBIBYTE),
        (fields.NVLINK_DATA_RX, fields.NVLINK_DATA_TX, active, _KIBIBYTE),
        (fields.NVLINK5_RX_BYTES, fields.NVLINK5_TX_BYTES, active, 1.0),
    ):
        counters = NvLinkCounters(
            tuple((receive, scope) for scope in scopes), tuple((transmit, scope) for scope in scopes), unit
        )
        values = FieldBatch(device, counters.receive + counters.transmit).read()
        if isinstance(values, Fault):
            return None
        if not any(isinstance(value, Fault) for value in values):
            return counters
    return None


class NvLinkTotal:
    """Adds the counters of links to one total that never falls.

    A link that is reset starts again from zero while the others go on: a sum of raw counters would fall by its past
    (KempnerInstitute/kempnerpulse#10). A zero after traffic is as likely a value that was not filled, and is waited
    out: what follows it tells. The first reading is taken as it is.
    """

    __slots__ = ("_last", "_summed", "_total")

    def __init__(self, summed: bool) -> None:
        """Start a total. `summed`: the driver adds the links up itself, so a fall does not tell which one restarted."""
        self._last: list[int] = []
        self._total = 0
        self._summed = summed

    def add(self, counts: Sequence[int]) -> int:
        """Return the total after a new reading of every counter."""
        if not self._last:
            self._last = list(counts)
            self._total = sum(counts)
            return self._total
        for link, (count, last) in enumerate(zip(counts, self._last, strict=True)):
            if count >= last:
                self._total += count - last
            elif count == 0:
                continue
            elif not self._summed:
                self._total += count  # what has passed since the restart
            self._last[link] = count
        return self._total
