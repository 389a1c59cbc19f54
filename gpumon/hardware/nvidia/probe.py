"""What one card is and can do, asked at start and after each re-initialisation. Mixed nodes are normal.

A card is asked everything once; what it refuses is remembered with the reason and told by `doctor`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from gpumon.hardware.nvidia import fields, nvlink, rings
from gpumon.hardware.nvidia.arrays import process_utilization, samples
from gpumon.hardware.nvidia.fields import FieldBatch
from gpumon.hardware.nvidia.gpm import MIN_INTERVAL_S, probe_gpm
from gpumon.hardware.nvml import Device
from gpumon.hardware.sysfs.pci import sysfs_address
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, MigSlice, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.fields import FEATURES

# nvmlDeviceArchitecture_t.
_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_AMPERE = 7
_WRAP = 1 << 32
NO_CAPABILITIES = Capabilities(
    features=frozenset(),
    pcie_source=LinkSource.NONE,
    nvlink_source=LinkSource.NONE,
    power_kind=PowerKind.NONE,
    counter_bits=0,
)


def identify(device: Device, index: int) -> CardIdentity | Fault:
    """Return who the card is. Only a card that tells its UUID can be followed."""
    uuid = device.uuid()
    if isinstance(uuid, Fault):
        return uuid
    name, bus_id, architecture = device.name(), device.bus_id(), device.architecture()
    return CardIdentity(
        uuid=uuid,
        index=index,
        name="unknown" if isinstance(name, Fault) else name,
        pci_address="" if isinstance(bus_id, Fault) else sysfs_address(bus_id),
        architecture="" if isinstance(architecture, Fault) else _ARCHITECTURES.get(architecture, ""),
        minor=_or_none(device.minor_number()),
        numa_node=_or_none(device.numa_node()),
    )


def _or_none(value: int | Fault) -> int:
    return -1 if isinstance(value, Fault) or value < 0 else value


def probe(device: Device, identity: CardIdentity, uuids_by_address: Mapping[str, str]) -> Card:
    """Return the card with all it can do. Takes up to 0.2 s, most of it two 20 ms windows and a pair of GPM samples."""
    started_s = time.monotonic()
    gpm = probe_gpm(device)
    answers: dict[str, Fault | None] = {
        "energy": _refusal(device.energy_millijoules()),
        "process_util": _ring_refusal(process_utilization(device, 0, 128)),
        "power_instant": _field_refusal(device, fields.POWER_INSTANT),
        "mig": _refusal(device.mig_enabled()),
        "ecc": _ecc_refusal(device),
    }
    counter_bits = _counter_bits(device)
    answers["pcie_counter"] = counter_bits if isinstance(counter_bits, Fault) else None
    windows = [device.pcie_kilobytes_per_second(direction) for direction in ("rx", "tx")]
    answers["pcie_window"] = next((None for value in windows if not isinstance(value, Fault)), _refusal(windows[0]))
    links = nvlink.probe(device, uuids_by_address)
    answers["nvlink"] = None if links.links else Fault.NOT_SUPPORTED
    if not isinstance(gpm, Fault):
        time.sleep(max(0.0, started_s + 1.2 * MIN_INTERVAL_S - time.monotonic()))
        gpm_links = gpm.finish()
        answers["gpm"] = gpm_links if isinstance(gpm_links, Fault) else None
    else:
        gpm_links = answers["gpm"] = gpm
    enabled = device.mig_enabled()
    slices = mig_slices(device) if enabled is True else ()
    return Card(
        identity=identity,
        capabilities=Capabilities(
            features=frozenset(feature for feature in FEATURES if answers[feature] is None),
            pcie_source=_pcie_source(answers, gpm_links),
            nvlink_source=_nvlink_source(device, links, gpm_links),
            power_kind=_power_kind(device, answers),
            counter_bits=0 if isinstance(counter_bits, Fault) else counter_bits,
            missing=tuple((feature, why) for feature in FEATURES if (why := answers[feature]) is not None),
        ),
        nvlink=links,
        mig_enabled=enabled is True,
        mig_slices=tuple(mig_slice for _, mig_slice in slices),
        fault=device.gone,
    )


def _refusal(value: float | Fault) -> Fault | None:
    return value if isinstance(value, Fault) else None


def _ring_refusal(value: object) -> Fault | None:
    """Return why a ring cannot be read; an empty one can."""
    return value if isinstance(value, Fault) and value is not Fault.NOT_FOUND else None


def _field_refusal(device: Device, field_id: int) -> Fault | None:
    """Return why a field cannot be had; a zero where there can be none was not filled."""
    values = FieldBatch(device, (field_id,)).read()
    if isinstance(values, Fault):
        return values
    return Fault.NO_DATA if values[0] == 0 else _refusal(values[0])


def _ecc_refusal(device: Device) -> Fault | None:
    """Return why there are no ECC counts. GeForce is not uniform: some cards have it, switched off."""
    enabled = device.ecc_enabled()
    if isinstance(enabled, Fault):
        return enabled
    return None if enabled else Fault.NO_DATA


def _counter_bits(device: Device) -> int | Fault:
    """Return the width of the byte counters: 32 until one of them has shown more.

    The kernel behind fields 197 and 198 counts in 32 bits (595.45.04) even where the type of the value has 64. Taken
    modulo 2^32 a wider counter gives the same differences, as long as it is read before 2^32 bytes have passed.
    """
    values = FieldBatch(device, (fields.PCIE_RX_BYTES, fields.PCIE_TX_BYTES)).read()
    if isinstance(values, Fault):
        return values
    widest = 0.0
    for value in values:
        if isinstance(value, Fault):
            return value
        widest = max(widest, value)
    return 32 if widest < _WRAP else 64


def _pcie_source(answers: Mapping[str, Fault | None], gpm: tuple[bool, bool] | Fault) -> LinkSource:
    if not isinstance(gpm, Fault) and gpm[0]:
        return LinkSource.GPM
    if answers["pcie_counter"] is None:
        return LinkSource.COUNTER
    return LinkSource.WINDOW if answers["pcie_window"] is None else LinkSource.NONE


def _nvlink_source(device: Device, links: NvLinkFacts, gpm: tuple[bool, bool] | Fault) -> LinkSource:
    """Return the cumulative fields where the card answers them: unlike GPM's means they miss nothing."""
    if not links.active:
        return LinkSource.NONE
    if nvlink.find_counters(device) is not None:
        return LinkSource.FIELD
    return LinkSource.GPM if not isinstance(gpm, Fault) and gpm[1] else LinkSource.NONE


def _power_kind(device: Device, answers: Mapping[str, Fault | None]) -> PowerKind:
    if _ring_refusal(samples(device, rings.POWER, 0, 256)) is None:
        return PowerKind.RING
    if answers["power_instant"] is None:
        return PowerKind.INSTANT
    if isinstance(device.power_milliwatts(), Fault):
        return PowerKind.NONE
    # nvml.h: instantaneous before Ampere, a mean over 1 s since. GA100 is as before and cannot be told from GA10x here.
    architecture = device.architecture()
    return PowerKind.INSTANT if isinstance(architecture, int) and architecture < _AMPERE else PowerKind.AVERAGE


def mig_slices(device: Device) -> tuple[tuple[Device, MigSlice], ...]:
    """Return the slices of a board in MIG mode, each with its own handle."""
    slots = device.mig_slots()
    found = []
    for slot in range(0 if isinstance(slots, Fault) else slots):
        part = device.mig_slice(slot)
        if isinstance(part, Fault):
            continue
        uuid, name = part.uuid(), part.name()
        if isinstance(uuid, Fault):
            continue
        # "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
        profile = "" if isinstance(name, Fault) else name.rpartition("MIG ")[2]
        found.append((part, MigSlice(uuid, profile, _or_none(part.gpu_instance()), _or_none(part.compute_instance()))))
    return tuple(found)
