"""The seam to NVIDIA's driver library: every call gives a value or a Fault. The only file that imports pynvml.

Values keep the vendor's units here (milliwatts, percent, KB/s): they are converted in `hardware.nvidia`. Nothing raises
for expected absence, whatever the binding throws:

- its exceptions compare but do not hash, and one of them can carry the code 0 (a sizing call that found nothing);
- a symbol that the driver lacks raises at the call, for unversioned symbols with a class that is no NVMLError;
- a name with a byte that is not UTF-8 raises UnicodeDecodeError: texts are therefore read as bytes.

Where the binding would allocate for each call, share a struct between callers, or believe a struct size that drivers
changed under the same symbol, the symbol is called with our own buffer instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpumon.model.errors import GpumonError
from gpumon.model.fault import Fault

_REINSTALL = "pip uninstall -y pynvml; pip install --force-reinstall 'nvidia-ml-py>=12.560'"
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another distribution's module of this name warns: doctor's to tell
        import pynvml
except ImportError as error:
    raise GpumonError(f"the Python package nvidia-ml-py cannot be imported ({error}): {_REINSTALL}") from None
# What no version of nvidia-ml-py lacks. Other calls may be missing: they are then not supported.
for _name in ("NVMLError", "NVMLLibraryMismatchError", "nvmlLib", "nvmlInit", "nvmlDeviceGetHandleByIndex"):
    if not hasattr(pynvml, _name):
        raise GpumonError(
            f"the Python module pynvml at {getattr(pynvml, '__file__', '?')} lacks {_name}: it is not the one of "
            f"nvidia-ml-py: {_REINSTALL}"
        )

# A refused permission may come back when a cgroup or an option changes: asked again this rarely.
_PERMISSION_RETRY_S = 60.0
_TEXT_BYTES = 96  # the longest text NVML documents (a v2 UUID or a device name)

# nvml.h return codes. What is not listed is UNKNOWN.
_FAULTS: dict[int, Fault] = {
    1: Fault.DRIVER_NOT_LOADED,  # not initialised, or initialised by another process before a fork
    3: Fault.NOT_SUPPORTED,
    4: Fault.NO_PERMISSION,
    6: Fault.NOT_FOUND,
    7: Fault.NO_DATA,  # insufficient size, after the attempts above
    9: Fault.DRIVER_NOT_LOADED,
    10: Fault.TIMEOUT,
    12: Fault.DRIVER_NOT_LOADED,  # no library: no driver package on this node
    13: Fault.NOT_SUPPORTED,  # the driver is older than the binding
    15: Fault.LOST,
    16: Fault.RESET_REQUIRED,
    17: Fault.NO_PERMISSION,  # the operating system or a cgroup refused
    18: Fault.VERSION_MISMATCH,
    19: Fault.NO_DATA,  # in use
    20: Fault.NO_DATA,  # out of memory for the moment
    21: Fault.NO_DATA,
    22: Fault.NOT_SUPPORTED,
    23: Fault.NO_DATA,
    25: Fault.NOT_SUPPORTED,  # struct version unknown to this driver
    26: Fault.NOT_SUPPORTED,  # removed API
    27: Fault.NO_DATA,  # not ready
    28: Fault.LOST,  # GPU not found
    29: Fault.DRIVER_NOT_LOADED,  # the library's view is gone; only re-initialising helps
}
INVALID_ARGUMENT = 2
_NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
_FUNCTION_NOT_FOUND = 13
_NO_DATA = 21  # also for an exception with the code 0
# How fast the usual duration of a call follows slower ones: doubled after four in a row.
_ENVELOPE_RISE = 1.2
# After one of these the handle is dead: no further call is made with it.
GONE = frozenset({Fault.LOST, Fault.RESET_REQUIRED, Fault.DRIVER_NOT_LOADED, Fault.VERSION_MISMATCH})


def fault_of(code: int) -> Fault:
    """Return the reason that an NVML return code stands for."""
    return _FAULTS.get(code, Fault.UNKNOWN)


Refused: TypeAlias = dict[Hashable, tuple[Fault, float]]
"""What a card does not answer: call -> (why, monotonic time to ask again)."""


@dataclass(slots=True)
class Meter:
    """What driver calls cost and how they failed. Written by one thread, read by others."""

    calls: int = 0
    seconds: float = 0.0  # inside calls; of window calls only the CPU time, since they sleep for the rest
    held_seconds: float = 0.0  # the same, each call counted at its usual duration, see `took`
    errors: dict[str, int] = field(default_factory=dict)  # failed calls by Fault value
    rejected: dict[str, int] = field(default_factory=dict)  # readings thrown away by reason
    busy_since: float = 0.0  # perf_counter of the call now inside the driver, 0 when none
    usual: dict[str, float] = field(default_factory=dict)  # seconds of an undisturbed call, by function

    def took(self, function: str, seconds: float) -> None:
        """Count a call.

        On a host whose processors are busy a call lasts longer because the thread waits for one of them, and another
        client's lock does the same: neither keeps the driver from others. The lower envelope of the last calls is what
        the driver itself needs.
        """
        self.calls += 1
        self.seconds += seconds
        self.busy_since = 0.0
        usual = min(seconds, _ENVELOPE_RISE * self.usual.get(function, seconds))
        self.usual[function] = usual
        self.held_seconds += usual

    def failed(self, fault: Fault) -> None:
        """Count a failed call. NOT_FOUND is not one: a ring without news or a process that ended."""
        if fault is not Fault.NOT_FOUND:
            self.errors[fault.value] = self.errors.get(fault.value, 0) + 1

    def reject(self, reason: str, count: int = 1) -> None:
        """Count readings that cannot be true."""
        self.rejected[reason] = self.rejected.get(reason, 0) + count


@contextlib.contextmanager
def sleeping(meter: Meter) -> Iterator[None]:
    """Count of the calls inside, which sleep in the driver, the CPU time of this thread only."""
    before, held, cpu = meter.seconds, meter.held_seconds, time.thread_time()
    yield
    spent = time.thread_time() - cpu
    meter.seconds, meter.held_seconds = before + spent, held + spent


def symbol(name: str) -> Callable[..., int] | None:
    """Return a function of the loaded library, None where the driver lacks it.

    Taken by item, so that it is our own object: types set on the shared one would change the binding's calls.
    """
    library = pynvml.nvmlLib
    if library is None:
        return None
    try:
        function: Callable[..., int] = library[name]
    except AttributeError:
        return None
    return function


def run(meter: Meter, function: Callable[..., int] | None, *arguments: Any) -> int:
    """Call a symbol and return its code; FunctionNotFound for one that the driver lacks."""
    if function is None:
        return _FUNCTION_NOT_FOUND
    started = meter.busy_since = time.perf_counter()
    code = function(*arguments)
    meter.took(function.__name__, time.perf_counter() - started)
    return code


def _code(meter: Meter, name: str, call: Callable[[], Any]) -> tuple[int, Any]:
    """Run one call of the binding: (return code, value). The one place that knows what the binding raises."""
    started = meter.busy_since = time.perf_counter()
    try:
        return 0, call()
    except pynvml.NVMLError as error:
        return int(error.value) or _NO_DATA, None
    except pynvml.NVMLLibraryMismatchError:
        return _FUNCTION_NOT_FOUND, None
    except UnicodeDecodeError:
        return -1, None
    finally:
        meter.took(name, time.perf_counter() - started)


class Device:
    """One card's (or MIG slice's) handle. For use by one thread.

    After the card is lost or the library shut down, `gone` says why and no call reaches the driver any more: a stale
    handle inside the library has crashed other monitors (XuehaiPan/nvitop#139). What a card cannot do is asked once.
    """

    def __init__(self, handle: Any, meter: Meter, refused: Refused | None = None) -> None:
        """Wrap a handle. `refused`: what this card is known not to answer, kept by the caller; else its own."""
        self.handle = handle
        self.meter = meter
        self.gone: Fault | None = None
        self._ratios = (ctypes.c_uint * 2)()  # nvmlUtilization_t: GPU, memory
        self.refused: Refused = {} if refused is None else refused
        self._symbols: dict[str, Callable[..., int] | None] = {}

    # How a call is made

    def timed(self, function: Callable[..., int] | None, *arguments: Any) -> int:
        """Call a library symbol with this handle and return its code."""
        return run(self.meter, function, self.handle, *arguments)

    def failed(self, code: int, key: Hashable) -> Fault:
        """Return the reason behind a code, and remember what need not be asked again."""
        fault = self._stale_or_unsupported() if code == INVALID_ARGUMENT else fault_of(code)
        if fault in GONE:
            self.gone = fault
        elif fault is Fault.NOT_SUPPORTED:
            self.refused[key] = (fault, math.inf)
        elif fault is Fault.NO_PERMISSION:
            self.refused[key] = (fault, time.monotonic() + _PERMISSION_RETRY_S)
        self.meter.failed(fault)
        return fault

    def _stale_or_unsupported(self) -> Fault:
        """Tell a handle that went stale from a question the driver does not understand: the UUID always answers."""
        uuid = ctypes.create_string_buffer(_TEXT_BYTES)
        code = self.timed(symbol("nvmlDeviceGetUUID"), uuid, ctypes.c_uint(_TEXT_BYTES))
        return Fault.NOT_SUPPORTED if code == 0 else Fault.LOST

    def barred(self, key: Hashable) -> Fault | None:
        """Return why a call need not be made: the handle is dead, or the card refused it before."""
        if self.gone is not None:
            return self.gone
        refused = self.refused.get(key)
        if refused is not None and time.monotonic() < refused[1]:
            return refused[0]
        return None

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of the binding; hashable arguments only."""
        key = (name, *arguments)
        barred = self.barred(key)
        if barred is not None:
            return barred
        function = getattr(pynvml, name, None)
        if function is None:
            return self.failed(_FUNCTION_NOT_FOUND, key)
        code, value = _code(self.meter, name, lambda: function(self.handle, *arguments))
        return value if code == 0 else self.failed(code, key)

    def fill(self, name: str, *arguments: Any, about: Hashable = None) -> Fault | None:
        """Call a symbol that writes into buffers of ours. `about`: what a refusal would be limited to."""
        key = name if about is None else (name, about)
        barred = self.barred(key)
        if barred is not None:
            return barred
        code = self.timed(self.symbol(name), *arguments)
        return self.failed(code, key) if code else None

    def symbol(self, name: str) -> Callable[..., int] | None:
        """Return a function of the library, looked up once; None where the driver lacks it."""
        if name not in self._symbols:
            self._symbols[name] = symbol(name)
        return self._symbols[name]

    def call(self, name: str, *arguments: Any) -> Fault | None:
        """Call a symbol that takes no handle, on this card's behalf: nothing is remembered of a refusal."""
        if self.gone is not None:
            return self.gone
        code = run(self.meter, symbol(name), *arguments)
        if code == 0:
            return None
        fault = fault_of(code)
        self.meter.failed(fault)
        return fault

    def _integer(self, name: str, *arguments: int) -> int | Fault:
        value = self._ask(name, *arguments)
        return value if isinstance(value, Fault) else int(value)

    def _integers(self, name: str, *arguments: int) -> tuple[int, ...] | Fault:
        value = self._ask(name, *arguments)
        return value if isinstance(value, Fault) else tuple(int(part) for part in value)

    def _text(self, name: str) -> str | Fault:
        content = ctypes.create_string_buffer(_TEXT_BYTES)
        fault = self.fill(name, content, ctypes.c_uint(_TEXT_BYTES))
        return readable(content.value) if fault is None else fault

    # Who the card is

    def uuid(self) -> str | Fault:
        return self._text("nvmlDeviceGetUUID")

    def name(self) -> str | Fault:
        return self._text("nvmlDeviceGetName")

    def bus_id(self) -> str | Fault:
        """Return the PCI address in NVML's form: eight digits of domain, capitals."""
        info = pynvml.nvmlPciInfo_t()
        fault = self.fill("nvmlDeviceGetPciInfo_v3", ctypes.byref(info))
        return _text_of(info, "busId") if fault is None else fault

    def minor_number(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMinorNumber")

    def architecture(self) -> int | Fault:
        return self._integer("nvmlDeviceGetArchitecture")

    def numa_node(self) -> int | Fault:
        return self._integer("nvmlDeviceGetNumaNodeId")

    # What it does now

    def utilization_percent(self) -> tuple[int, int] | Fault:
        """Return (a kernel ran, memory was read or written), in percent of a period of 1/6 to 1 s."""
        ratios = self._ratios
        fault = self.fill("nvmlDeviceGetUtilizationRates", ratios)
        return (ratios[0], ratios[1]) if fault is None else fault

    def bus_busy_percent(self) -> int | Fault:
        """Return the busy share of the bus interface over about a second: domain 3 of the dynamic P-states."""
        info = pynvml.c_nvmlGpuDynamicPstatesInfo_t()
        fault = self.fill("nvmlDeviceGetDynamicPstatesInfo", ctypes.byref(info))
        if fault is not None:
            return fault
        domain = info.utilization[3]
        return int(domain.percentage) if domain.bIsPresent else self.failed(3, "nvmlDeviceGetDynamicPstatesInfo")

    def memory_bytes(self) -> tuple[int, int, int | None] | Fault:
        """Return (total, used, reserved). Drivers before R510 fold reserved into used: then it is None."""
        split = self._ask("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
        if not isinstance(split, Fault):
            return int(split.total), int(split.used), int(split.reserved)
        if split is not Fault.NOT_SUPPORTED:
            return split
        whole = self._ask("nvmlDeviceGetMemoryInfo")
        return whole if isinstance(whole, Fault) else (int(whole.total), int(whole.used), None)

    def power_milliwatts(self) -> int | Fault:
        return self._integer("nvmlDeviceGetPowerUsage")

    def power_limit_milliwatts(self) -> int | Fault:
        return self._integer("nvmlDeviceGetEnforcedPowerLimit")

    def power_default_limit_milliwatts(self) -> int | Fault:
        return self._integer("nvmlDeviceGetPowerManagementDefaultLimit")

    def energy_millijoules(self) -> int | Fault:
        return self._integer("nvmlDeviceGetTotalEnergyConsumption")

    def temperature_celsius(self) -> int | Fault:
        """Return the GPU's temperature by the older call, where a driver has removed it by its successor."""
        value = self._integer("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU)
        if value is not Fault.NOT_SUPPORTED:
            return value
        return self._integer("nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU)

    def temperature_slowdown_celsius(self) -> int | Fault:
        return self._integer("nvmlDeviceGetTemperatureThreshold", pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)

    def sm_clock_megahertz(self) -> int | Fault:
        return self._integer("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM)

    def memory_clock_megahertz(self) -> int | Fault:
        return self._integer("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM)

    def sm_clock_max_megahertz(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM)

    def memory_clock_max_megahertz(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM)

    def clock_event_reasons(self) -> int | Fault:
        """Return the 64-bit mask, by its name since R535 or the older one."""
        mask = self._integer("nvmlDeviceGetCurrentClocksEventReasons")
        return self._integer("nvmlDeviceGetCurrentClocksThrottleReasons") if mask is Fault.NOT_SUPPORTED else mask

    # Links

    def link_generation(self) -> int | Fault:
        return self._integer("nvmlDeviceGetCurrPcieLinkGeneration")

    def link_generation_max(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMaxPcieLinkGeneration")

    def card_generation_max(self) -> int | Fault:
        return self._integer("nvmlDeviceGetGpuMaxPcieLinkGeneration")

    def link_width(self) -> int | Fault:
        return self._integer("nvmlDeviceGetCurrPcieLinkWidth")

    def link_width_max(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMaxPcieLinkWidth")

    def pcie_replays(self) -> int | Fault:
        return self._integer("nvmlDeviceGetPcieReplayCounter")

    def pcie_kilobytes_per_second(self, direction: str) -> int | Fault:
        """Watch one direction ("rx" or "tx", from the card's side) for 20 ms. Blocks.

        Only the CPU time of the calling thread counts as time inside the driver: the rest is sleep.
        """
        counter = pynvml.NVML_PCIE_UTIL_RX_BYTES if direction == "rx" else pynvml.NVML_PCIE_UTIL_TX_BYTES
        with sleeping(self.meter):
            return self._integer("nvmlDeviceGetPcieThroughput", counter)

    def nvlink_state(self, link: int) -> int | Fault:
        """Return 0 inactive, 1 active, 2 asleep, 3 active without traffic. NOT_SUPPORTED past the last link."""
        return self._integer("nvmlDeviceGetNvLinkState", link)

    def nvlink_version(self, link: int) -> int | Fault:
        return self._integer("nvmlDeviceGetNvLinkVersion", link)

    def nvlink_remote_type(self, link: int) -> int | Fault:
        return self._integer("nvmlDeviceGetNvLinkRemoteDeviceType", link)

    def nvlink_remote_bus_id(self, link: int) -> str | Fault:
        info = pynvml.nvmlPciInfo_t()
        fault = self.fill("nvmlDeviceGetNvLinkRemotePciInfo_v2", ctypes.c_uint(link), ctypes.byref(info), about=link)
        return _text_of(info, "busId") if fault is None else fault

    def topology_level(self, other: Device) -> int | Fault:
        """Return nvmlGpuTopologyLevel_t: 0 one board, 10 one switch, to 50 across sockets."""
        return self._pair("nvmlDeviceGetTopologyCommonAncestor", other)

    def p2p_status(self, other: Device, capability: int) -> int | Fault:
        """Return nvmlGpuP2PStatus_t of a capability: 0 read, 1 write, 2 NVLink, 3 atomics, 4 PCI."""
        return self._pair("nvmlDeviceGetP2PStatus", other, capability)

    def _pair(self, name: str, other: Device, *arguments: int) -> int | Fault:
        answer = ctypes.c_uint()
        about = (address(other.handle), *arguments)
        fault = other.gone or self.fill(name, other.handle, *arguments, ctypes.byref(answer), about=about)
        return answer.value if fault is None else fault

    # Health

    def ecc_enabled(self) -> bool | Fault:
        mode = self._integers("nvmlDeviceGetEccMode")
        return mode if isinstance(mode, Fault) else bool(mode[0])

    def ecc_errors(self, uncorrected: bool) -> int | Fault:
        """Return volatile errors: since the driver was loaded."""
        kind = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED if uncorrected else pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        return self._integer("nvmlDeviceGetTotalEccErrors", kind, pynvml.NVML_VOLATILE_ECC)

    def remapped_rows(self) -> tuple[int, ...] | Fault:
        """Return (correctable, uncorrectable, pending, failed)."""
        return self._integers("nvmlDeviceGetRemappedRows")

    # MIG

    def mig_enabled(self) -> bool | Fault:
        mode = self._integers("nvmlDeviceGetMigMode")
        return mode if isinstance(mode, Fault) else bool(mode[0])

    def mig_slots(self) -> int | Fault:
        return self._integer("nvmlDeviceGetMaxMigDeviceCount")

    def mig_slice(self, slot: int) -> Device | Fault:
        """Return the slice in a slot. An empty slot is NOT_FOUND and asked again every time."""
        if self.gone is not None:
            return self.gone
        name = "nvmlDeviceGetMigDeviceHandleByIndex"
        code, handle = _code(self.meter, name, lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, slot))
        if code == 0:
            return Device(handle, self.meter)
        return Fault.NOT_FOUND if fault_of(code) is Fault.NOT_FOUND else self.failed(code, ("mig_slice", slot))

    def gpu_instance(self) -> int | Fault:
        return self._integer("nvmlDeviceGetGpuInstanceId")

    def compute_instance(self) -> int | Fault:
        return self._integer("nvmlDeviceGetComputeInstanceId")

    def event_types(self) -> int | Fault:
        return self._integer("nvmlDeviceGetSupportedEventTypes")

    def gpm_supported(self) -> bool | Fault:
        value = self._ask("nvmlGpmQueryDeviceSupport")
        return value if isinstance(value, Fault) else bool(value.isSupportedDevice)


def field_values(fields: Sequence[tuple[int, int]]) -> Any:
    """Return an array of nvmlFieldValue_t with (field id, scope id) filled in."""
    array = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for place, (field_id, scope_id) in enumerate(fields):
        array[place].fieldId, array[place].scopeId = field_id, scope_id
    return array


def event_data() -> Any:
    """Return an empty nvmlEventData_t."""
    return pynvml.c_nvmlEventData_t()


def gpm_query(metrics: Sequence[int]) -> Any:
    """Return an nvmlGpmMetricsGet_t that asks for metrics.

    The binding sizes it by its own largest metric (98 to 477 entries) while the version stays 1; only the first entries
    are used, which every driver accepts.
    """
    query = pynvml.c_nvmlGpmMetricsGet_t()
    query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    query.numMetrics = len(metrics)
    for place, metric in enumerate(metrics):
        query.metrics[place].metricId = metric
    return query


class Driver:
    """The library as a whole: initialising, finding cards, events. For use by one thread at a time.

    The binding never unloads the library; initialising is counted inside it, so each success is shut down once. The
    state belongs to the process that initialised: after a fork the child starts anew and leaves the parent's alone.
    """

    def __init__(self) -> None:
        self.meter = Meter()
        self.generation = 0  # how often it was initialised: handles of an earlier time are stale
        self._owner = 0  # pid of the process that initialised, 0 when shut down

    @property
    def up(self) -> bool:
        """Whether this process has the library initialised."""
        return self._owner == os.getpid()

    def initialise(self) -> Fault | None:
        """Load the library if need be and initialise it.

        With NVML_MPS_DEVICE_ENUMERATION set, drivers from R615 on answer NotSupported to nearly every question: it is
        taken out of the environment first.
        """
        os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)
        # Still up when a call that never came back kept it from being shut down: new handles are all there is.
        fault = None if self.up else self._call(pynvml.nvmlInit)[0]
        if fault is None:
            self._owner = os.getpid()
            self.generation += 1
        return fault

    def shut_down(self) -> None:
        """Shut the library down. Not while any thread is inside it: that has crashed other monitors."""
        if self.up:
            self._owner = 0
            self._call(pynvml.nvmlShutdown)

    def _call(self, call: Callable[[], Any]) -> tuple[Fault | None, Any]:
        code, value = _code(self.meter, call.__name__, call)
        if code == 0:
            return None, value
        fault = fault_of(code)
        self.meter.failed(fault)
        return fault, None

    def version(self) -> str | Fault:
        fault, value = self._call(pynvml.nvmlSystemGetDriverVersion)
        return fault or readable(value.encode())

    def device_count(self) -> int | Fault:
        """Return how many cards the driver has, those included that we may not open."""
        fault, value = self._call(pynvml.nvmlDeviceGetCount)
        return fault or int(value)

    def device_at(self, index: int, meter: Meter) -> Device | Fault:
        """Look a card up by its place; about 6 ms, seconds where the driver must bring it up first."""
        return self._device("nvmlDeviceGetHandleByIndex", index, meter)

    def device_named(self, uuid: str, meter: Meter, refused: Refused | None = None) -> Device | Fault:
        """Look a card up by its UUID; about 6 ms."""
        return self._device("nvmlDeviceGetHandleByUUID", uuid, meter, refused)

    @staticmethod
    def _device(function: str, which: int | str, meter: Meter, refused: Refused | None = None) -> Device | Fault:
        code, handle = _code(meter, function, lambda: getattr(pynvml, function)(which))
        if code == 0:
            # A null handle has been handed out for a card that had just gone; the library would dereference it.
            return Device(handle, meter, refused) if handle else Fault.LOST
        # A UUID that the driver no longer knows, or an index past its end: the card is gone.
        fault = Fault.LOST if code in (INVALID_ARGUMENT, _NOT_FOUND) else fault_of(code)
        meter.failed(fault)
        return fault


def _text_of(struct: ctypes.Structure, name: str) -> str:
    """Return a text inside a struct from its bytes; the binding's own access raises on a byte that is no UTF-8."""
    return readable(ctypes.string_at(ctypes.addressof(struct) + getattr(type(struct), name).offset))


def address(handle: Any) -> int:
    """Return where a handle points: what makes two handles of one time the same card."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def readable(content: bytes) -> str:
    """Return text from the driver as printable text: bytes that are none become "?", and nothing else "unknown".

    A driver update has put bytes into every string that are no UTF-8 (wookayin/gpustat#170).
    """
    decoded = content.decode("utf-8", "replace")
    shown = "".join(sign if sign.isprintable() and sign != "\ufffd" else "?" for sign in decoded).strip()
    return shown if any(sign.isalnum() for sign in shown) else "unknown"
