"""The field table: what is read from a card, and what is exported. One row drives HELP, docs, recordings, dashboards.

READINGS are the once-a-second (or slower) scalars of CardTick.readings. METRICS are the exported families of
CONTRACT; a reading that is exported as it is names its family in `metric`. Sub-second samples (link slots, power and
utilization series) are typed in model/samples.py.
"""

from __future__ import annotations

from dataclasses import dataclass

# Names of the clock event reasons, with the bit each stands for in nvmlDeviceGetCurrentClocksEventReasons (nvml.h).
# A bit outside this list is exported as "unknown".
THROTTLE_REASONS: dict[int, str] = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
THROTTLE_UNKNOWN = "unknown"

FEATURES = (
    "pcie_counter",
    "pcie_window",
    "gpm",
    "nvlink",
    "energy",
    "process_util",
    "power_instant",
    "ecc",
    "mig",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One scalar of CardTick.readings. `kind` is gauge or counter (cumulative since driver load, may restart)."""

    key: str
    unit: str
    kind: str
    source: str  # the NVML call or sysfs file, and the period it averages over
    metric: str = ""  # family it is exported as; "" when it is only an input
    labels: tuple[tuple[str, str], ...] = ()  # fixed labels of that series


READINGS: tuple[Reading, ...] = (
    Reading(
        "utilization_ratio",
        "ratio",
        "gauge",
        "nvmlDeviceGetUtilizationRates.gpu, 1/6 to 1 s",
        "gpu_utilization_ratio",
    ),
    Reading(
        "memory_controller_ratio",
        "ratio",
        "gauge",
        "nvmlDeviceGetUtilizationRates.memory, 1/6 to 1 s",
        "gpu_memory_controller_ratio",
    ),
    Reading("sm_active_ratio", "ratio", "gauge", "GPM metric 2, between two samples", "gpu_sm_active_ratio"),
    Reading("sm_occupancy_ratio", "ratio", "gauge", "GPM metric 3, between two samples", "gpu_sm_occupancy_ratio"),
    Reading(
        "tensor_active_ratio",
        "ratio",
        "gauge",
        "GPM metric 5, between two samples",
        "gpu_tensor_active_ratio",
    ),
    Reading("dram_active_ratio", "ratio", "gauge", "GPM metric 10, between two samples", "gpu_dram_active_ratio"),
    Reading("bus_busy_ratio", "ratio", "gauge", "nvmlDeviceGetDynamicPstatesInfo domain 3, about 1 s"),
    Reading("memory_used_bytes", "bytes", "gauge", "nvmlDeviceGetMemoryInfo v2, now", "gpu_memory_used_bytes"),
    Reading("memory_total_bytes", "bytes", "gauge", "nvmlDeviceGetMemoryInfo v2", "gpu_memory_total_bytes"),
    Reading("memory_reserved_bytes", "bytes", "gauge", "nvmlDeviceGetMemoryInfo v2", "gpu_memory_reserved_bytes"),
    Reading(
        "power_watts",
        "watts",
        "gauge",
        "field 186 (now), else 185 or nvmlDeviceGetPowerUsage (1 s mean)",
        "gpu_power_watts",
    ),
    Reading("power_limit_watts", "watts", "gauge", "nvmlDeviceGetEnforcedPowerLimit", "gpu_power_limit_watts"),
    Reading("power_default_limit_watts", "watts", "gauge", "nvmlDeviceGetPowerManagementDefaultLimit"),
    Reading(
        "energy_joules",
        "joules",
        "counter",
        "nvmlDeviceGetTotalEnergyConsumption, since driver load",
        "gpu_energy_joules_total",
    ),
    Reading(
        "temperature_gpu_celsius",
        "celsius",
        "gauge",
        "nvmlDeviceGetTemperature, now",
        "gpu_temperature_celsius",
        (("sensor", "gpu"),),
    ),
    Reading(
        "temperature_memory_celsius",
        "celsius",
        "gauge",
        "field 82, now",
        "gpu_temperature_celsius",
        (("sensor", "memory"),),
    ),
    Reading("temperature_slowdown_celsius", "celsius", "gauge", "nvmlDeviceGetTemperatureThreshold(slowdown)"),
    Reading(
        "sm_clock_hertz",
        "hertz",
        "gauge",
        "nvmlDeviceGetClockInfo(SM), now",
        "gpu_clock_hertz",
        (("domain", "sm"),),
    ),
    Reading(
        "memory_clock_hertz",
        "hertz",
        "gauge",
        "nvmlDeviceGetClockInfo(MEM), now",
        "gpu_clock_hertz",
        (("domain", "memory"),),
    ),
    Reading(
        "sm_clock_max_hertz",
        "hertz",
        "gauge",
        "nvmlDeviceGetMaxClockInfo(SM)",
        "gpu_clock_max_hertz",
        (("domain", "sm"),),
    ),
    Reading(
        "memory_clock_max_hertz",
        "hertz",
        "gauge",
        "nvmlDeviceGetMaxClockInfo(MEM)",
        "gpu_clock_max_hertz",
        (("domain", "memory"),),
    ),
    Reading("throttle_power_seconds", "seconds", "counter", "field 74, since driver load"),
    Reading("throttle_sync_boost_seconds", "seconds", "counter", "field 76, since driver load"),
    Reading("throttle_sw_thermal_seconds", "seconds", "counter", "field 269, since driver load"),
    Reading("throttle_hw_thermal_seconds", "seconds", "counter", "field 270, since driver load"),
    Reading("throttle_hw_power_brake_seconds", "seconds", "counter", "field 271, since driver load"),
    Reading(
        "link_generation",
        "1",
        "gauge",
        "nvmlDeviceGetCurrPcieLinkGeneration, now",
        "pcie_link_generation",
        (("state", "current"),),
    ),
    Reading(
        "link_generation_max",
        "1",
        "gauge",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "pcie_link_generation",
        (("state", "max"),),
    ),
    Reading(
        "link_width_lanes",
        "lanes",
        "gauge",
        "nvmlDeviceGetCurrPcieLinkWidth, now",
        "pcie_link_width_lanes",
        (("state", "current"),),
    ),
    Reading(
        "link_width_max_lanes",
        "lanes",
        "gauge",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "pcie_link_width_lanes",
        (("state", "max"),),
    ),
    Reading(
        "card_generation_max",
        "1",
        "gauge",
        "nvmlDeviceGetGpuMaxPcieLinkGeneration: the card alone, without the slot",
    ),
    Reading(
        "pcie_replays",
        "1",
        "counter",
        "nvmlDeviceGetPcieReplayCounter, since driver load",
        "pcie_replays_total",
    ),
    Reading(
        "pcie_correctable_errors",
        "1",
        "counter",
        "field 173, since driver load",
        "pcie_errors_total",
        (("kind", "correctable"),),
    ),
    Reading(
        "pcie_nonfatal_errors",
        "1",
        "counter",
        "field 179, since driver load",
        "pcie_errors_total",
        (("kind", "nonfatal"),),
    ),
    Reading(
        "pcie_fatal_errors",
        "1",
        "counter",
        "field 180, since driver load",
        "pcie_errors_total",
        (("kind", "fatal"),),
    ),
    Reading(
        "nvlink_links_active",
        "1",
        "gauge",
        "nvmlDeviceGetNvLinkState",
        "nvlink_links",
        (("state", "active"),),
    ),
    Reading(
        "nvlink_links_inactive",
        "1",
        "gauge",
        "nvmlDeviceGetNvLinkState",
        "nvlink_links",
        (("state", "inactive"),),
    ),
    Reading(
        "ecc_corrected",
        "1",
        "counter",
        "nvmlDeviceGetTotalEccErrors, volatile",
        "gpu_ecc_errors_total",
        (("kind", "corrected"),),
    ),
    Reading(
        "ecc_uncorrected",
        "1",
        "counter",
        "nvmlDeviceGetTotalEccErrors, volatile",
        "gpu_ecc_errors_total",
        (("kind", "uncorrected"),),
    ),
    Reading("row_remap_pending", "boolean", "gauge", "nvmlDeviceGetRemappedRows", "gpu_row_remap_pending"),
    Reading("row_remap_failed", "boolean", "gauge", "nvmlDeviceGetRemappedRows", "gpu_row_remap_failed"),
)

READINGS_BY_KEY: dict[str, Reading] = {row.key: row for row in READINGS}

# Which cumulative time counter belongs to which throttle reason.
THROTTLE_SECONDS_KEYS: dict[str, str] = {
    "sw_power_cap": "throttle_power_seconds",
    "sync_boost": "throttle_sync_boost_seconds",
    "sw_thermal": "throttle_sw_thermal_seconds",
    "hw_thermal": "throttle_hw_thermal_seconds",
    "hw_power_brake": "throttle_hw_power_brake_seconds",
}
