"""What single driver calls cost on this node. For the real driver only: a simulated node has no calls to time.

The readers make these calls in batches (`measure`); here each is timed by itself, so that a bug report shows which one
is dear on which card and driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gpumon.doctor.measure import CallCost, CardCosts, first_of_each_model
from gpumon.hardware.nvidia import fields
from gpumon.hardware.nvidia.fields import FieldBatch
from gpumon.hardware.nvml import Device, Driver, Meter
from gpumon.model.card import Card
from gpumon.model.fault import Fault

_COUNT = 20
_POWER_AVERAGE = 185

_CALLS: tuple[tuple[str, Callable[[Device], object]], ...] = (
    ("nvmlDeviceGetUtilizationRates", Device.utilization_percent),
    ("nvmlDeviceGetDynamicPstatesInfo", Device.bus_busy_percent),
    ("nvmlDeviceGetMemoryInfo", Device.memory_bytes),
    ("nvmlDeviceGetPowerUsage", Device.power_milliwatts),
    ("nvmlDeviceGetEnforcedPowerLimit", Device.power_limit_milliwatts),
    ("nvmlDeviceGetTotalEnergyConsumption", Device.energy_millijoules),
    ("nvmlDeviceGetTemperature", Device.temperature_celsius),
    ("nvmlDeviceGetClockInfo(SM)", Device.sm_clock_megahertz),
    ("nvmlDeviceGetCurrentClocksEventReasons", Device.clock_event_reasons),
    ("nvmlDeviceGetCurrPcieLinkGeneration", Device.link_generation),
    ("nvmlDeviceGetCurrPcieLinkWidth", Device.link_width),
    ("nvmlDeviceGetPcieReplayCounter", Device.pcie_replays),
    ("nvmlDeviceGetTotalEccErrors", lambda device: device.ecc_errors(uncorrected=True)),
)
_FIELDS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("field values 197, 198 (link bytes)", (fields.PCIE_TX_BYTES, fields.PCIE_RX_BYTES)),
    ("field value 186 (power now)", (fields.POWER_INSTANT,)),
    ("field value 185 (power over 1 s)", (_POWER_AVERAGE,)),
    ("field value 82 (memory temperature)", (fields.MEMORY_TEMPERATURE,)),
    (
        "field values 173, 179, 180 (link errors)",
        (fields.PCIE_CORRECTABLE_ERRORS, fields.PCIE_NONFATAL_ERRORS, fields.PCIE_FATAL_ERRORS),
    ),
)


def driver_call_costs(cards: Sequence[Card], driver: Driver | None = None) -> tuple[CardCosts, ...]:
    """Return the cost of each driver call on the first usable card of each model; nothing without a driver.

    Opens the driver for itself and closes it again: initialising is counted inside the library.
    """
    own = driver or Driver()
    if own.initialise() is not None:
        return ()
    try:
        found = ((card, own.device_named(card.identity.uuid, Meter())) for card in first_of_each_model(cards))
        return tuple(
            CardCosts(card.identity.name, card.identity.index, _costs(device))
            for card, device in found
            if not isinstance(device, Fault)
        )
    finally:
        own.shut_down()


def _costs(device: Device) -> tuple[CallCost, ...]:
    costs = [_timed(name, partial(call, device)) for name, call in _CALLS]
    costs += [_timed(name, partial(_first, FieldBatch(device, ids))) for name, ids in _FIELDS]
    return tuple(costs)


def _first(batch: FieldBatch) -> object:
    """Return the batch's fault, or that of its first field."""
    values = batch.read()
    return values if isinstance(values, Fault) else values[0]


def _timed(name: str, call: Callable[[], object]) -> CallCost:
    durations: list[float] = []
    for _ in range(_COUNT):
        before = time.perf_counter()
        answer = call()
        if isinstance(answer, Fault):
            return CallCost(name, "", 0, float("nan"), float("nan"), answer.value)
        durations.append(time.perf_counter() - before)
    median_s, p95_s = np.quantile(durations, (0.5, 0.95))
    return CallCost(name, "", len(durations), float(median_s), float(p95_s))
