"""Everything that touches the machine: NVML, procfs, sysfs, and the simulated node that stands in for all three."""
