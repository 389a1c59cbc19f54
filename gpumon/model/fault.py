"""Why a reading is missing. Missing is NaN (or None) plus one of these: never 0, never the last value."""

from __future__ import annotations

import math
from enum import Enum


class Fault(str, Enum):
    """The reason for a missing reading. The value is the label text of `gpumon_nvml_errors_total`."""

    NOT_SUPPORTED = "not_supported"  # the card or driver cannot do it; cached, asked again only after re-init
    NO_PERMISSION = "no_permission"  # root-only call, cgroup-blocked device, hidden process
    LOST = "lost"  # the card fell off the bus
    RESET_REQUIRED = "reset_required"  # the card answers nothing until it is reset
    DRIVER_NOT_LOADED = "driver_not_loaded"  # no library, no module, or NVML shut down
    RELEASED = "released"  # gpumon lets go of the driver, or was told never to touch it
    VERSION_MISMATCH = "version_mismatch"  # user-space driver replaced under a loaded module
    TIMEOUT = "timeout"  # the call has not come back in its time
    STALE = "stale"  # the newest value is too old to stand for now
    REJECTED = "rejected"  # the value cannot be true and was thrown away
    NOT_FOUND = "not_found"  # process gone, ring empty
    NO_DATA = "no_data"  # transient: the driver had nothing this time
    UNKNOWN = "unknown"  # NVML's catch-all 999 or a code this version does not know


def is_missing(value: float) -> bool:
    """Return True when a reading is absent."""
    return math.isnan(value)


def same_value(left: float, right: float) -> bool:
    """Return True when two readings are equal or both missing (NaN is not equal to itself)."""
    return left == right or (math.isnan(left) and math.isnan(right))
