"""What to watch: the node's driver, or a simulated node that says so."""

from __future__ import annotations

from pathlib import Path

from gpumon.app.daemon import Sources
from gpumon.config import Config


def real(config: Config) -> Sources:
    """Return readers of this machine. Works without a driver: then nothing answers until it appears."""
    from gpumon.hardware.nvidia.node import NvmlNode
    from gpumon.hardware.procfs import ContainerDirectory, ProcfsHost

    containers = ContainerDirectory()
    containers.start()
    return Sources(
        node=NvmlNode(sysfs_root=Path(config.sysfs_root), procfs_root=Path(config.procfs_root)),
        host=ProcfsHost(
            procfs_root=Path(config.procfs_root),
            sysfs_root=Path(config.sysfs_root),
            containers=containers,
            environ=config.settings.sampling.environ,
        ),
    )


def simulated(scenario: str) -> Sources:
    """Return a simulated node. Raises GpumonError for a scenario that does not exist."""
    from gpumon.hardware.simulated.node import SimulatedNode
    from gpumon.sampling.clocks import RealClock

    node = SimulatedNode(scenario, clock=RealClock())
    return Sources(node=node, host=node)
