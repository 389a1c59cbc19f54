"""Driver, Python bindings, device files, and cards that another driver holds."""

from __future__ import annotations

from gpumon.doctor.examination import Examination
from gpumon.doctor.result import Result, failed, passed, warned
from gpumon.model.fault import Fault

# Byte counters (fields 197/198) have names in the bindings from here on.
_OLDEST_BINDINGS = (12, 560)
# Up to 11.5 the distribution `pynvml` brought a module of its own that overwrites nvidia-ml-py's.
_FIRST_HARMLESS_PYNVML = 12
# Byte counters and with them full coverage of link traffic: change log of the NVML reference, R555.
_COUNTER_DRIVER = 555

_DRIVER_FAULTS = {
    Fault.DRIVER_NOT_LOADED: (
        "No NVIDIA driver answers: the library or the kernel module is missing.",
        "Install the driver, or load it (modprobe nvidia) and read `dmesg | grep -i nvrm`. In a container, start it "
        "with --gpus all (NVIDIA container toolkit). `gpumon run` waits and comes up when the driver does.",
    ),
    Fault.VERSION_MISMATCH: (
        "The driver's library was replaced under the loaded kernel module.",
        "Reboot, or stop every user of the cards (`gpumon release` for this one) and reload the module.",
    ),
    Fault.NO_PERMISSION: (
        "The driver refuses this user.",
        "Give the user access to /dev/nvidia* (device files below); NVML itself needs no root.",
    ),
    Fault.UNKNOWN: (
        "The driver answers only with an unknown error.",
        "In a container this follows a `systemctl daemon-reload` on the host that took the device rules away: "
        "restart the container, and see nvidia-container-toolkit#48 for keeping it from happening.",
    ),
}


def driver(examination: Examination) -> tuple[Result, ...]:
    """The driver answers and is new enough for byte counters."""
    fault = examination.fault
    if fault is not None:
        sentence, remedy = _DRIVER_FAULTS.get(
            fault, (f"The driver does not answer: {fault.value}.", "Read `dmesg | grep -i nvrm` and `nvidia-smi`.")
        )
        return (failed("driver", sentence, remedy),)
    version = examination.facts.driver_version
    found = f"Driver {version or 'of unknown version'} answers, {_count(len(examination.cards), 'card')}."
    if 0 < _leading_number(version) < _COUNTER_DRIVER:
        return (
            warned(
                "driver",
                f"{found} It has no PCIe byte counters: link traffic is sampled in windows and seen in part.",
                f"A driver of branch {_COUNTER_DRIVER} or newer lets gpumon see all traffic.",
            ),
        )
    return (passed("driver", found),)


def bindings(examination: Examination) -> tuple[Result, ...]:
    """nvidia-ml-py is there and new enough."""
    version = examination.distributions.get("nvidia-ml-py", "")
    if not version:
        return (failed("bindings", "The Python package nvidia-ml-py is missing.", "pip install nvidia-ml-py"),)
    if _version(version)[:2] < _OLDEST_BINDINGS:
        oldest = ".".join(str(part) for part in _OLDEST_BINDINGS)
        return (
            failed(
                "bindings",
                f"nvidia-ml-py {version} is older than {oldest}.",
                f"pip install 'nvidia-ml-py>={oldest}'",
            ),
        )
    return (passed("bindings", f"nvidia-ml-py {version}."),)


def old_pynvml(examination: Examination) -> tuple[Result, ...]:
    """No distribution overwrites nvidia-ml-py's module."""
    version = examination.distributions.get("pynvml", "")
    if not version:
        return ()
    if _version(version)[:1] < (_FIRST_HARMLESS_PYNVML,):
        return (
            failed(
                "pynvml",
                f"The distribution pynvml {version} overwrites the module that nvidia-ml-py installs.",
                "pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py",
            ),
        )
    return (
        passed("pynvml", f"pynvml {version} is installed: inactive, but it only adds pynvml_utils and an import hook."),
    )


def device_files(examination: Examination) -> tuple[Result, ...]:
    """This user may open the driver's device files."""
    files = examination.device_files
    if not files:
        return ()
    closed = [file.path for file in files if not file.readable]
    if closed:
        return (
            warned(
                "permissions",
                f"User {examination.user_id} may not open {', '.join(closed)}: those cards are not read.",
                "Set the mode with the driver's module options (NVreg_DeviceFileMode=0666) or add the user to their "
                "group; in a container give it the devices.",
            ),
        )
    return (passed("permissions", f"User {examination.user_id} may open all {len(files)} device files."),)


def foreign_drivers(examination: Examination) -> tuple[Result, ...]:
    """Cards that the nvidia driver does not hold: guests' cards are normal, others are not."""
    held: dict[str, list[str]] = {}
    for gpu in examination.topology.pci_gpus:
        held.setdefault(gpu.driver, []).append(gpu.address)
    results = []
    if guests := held.get("vfio-pci"):
        results.append(
            passed(
                "pci cards",
                f"{_count(len(guests), 'card')} held for guests ({', '.join(guests)}): only link width and error "
                "counters can be seen from here.",
            )
        )
    if nouveau := held.get("nouveau"):
        results.append(
            failed(
                "pci cards",
                f"{', '.join(nouveau)} driven by nouveau: NVML does not know {_them(nouveau)}.",
                "Blacklist nouveau, rebuild the initramfs, reboot.",
            )
        )
    if unbound := held.get("none"):
        results.append(
            warned(
                "pci cards",
                f"No driver holds {', '.join(unbound)}.",
                "Read `dmesg | grep -i nvrm`: a card that fell off the bus, one too old for this driver, or a driver "
                "that is not loaded.",
            )
        )
    return tuple(results)


def _them(addresses: list[str]) -> str:
    return "them" if len(addresses) > 1 else "it"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _leading_number(version: str) -> int:
    parts = _version(version)
    return parts[0] if parts else 0


def _version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "12.560.30" is (12, 560, 30), "13.1rc1" is (13,)."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
