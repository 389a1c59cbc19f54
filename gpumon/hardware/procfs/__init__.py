"""Processes, containers and the host's load, from procfs, cgroupfs and the container runtimes. Reads only."""

from gpumon.hardware.procfs.containers import ContainerDirectory
from gpumon.hardware.procfs.host import ProcfsHost

__all__ = ["ContainerDirectory", "ProcfsHost"]
