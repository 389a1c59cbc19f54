"""Boards the scenarios use. Figures are of published machines; see fabric.HostSpec."""

from __future__ import annotations

from gpumon.hardware.simulated.fabric import HostSpec
from gpumon.hardware.simulated.scenario import NodePlan, slots

# 4 and 8 x RTX 5090 in one dual-socket host reach 35 and 28 GB/s in an all-reduce (NVIDIA/nccl#1639): the first is
# what kernels get through host memory out of one link, the second what the memory of two sockets carries.
HOST_5090 = HostSpec(staging_bytes_per_second=35e9)
# 13 of 31.5 GB/s each way through host memory (RTX 4090, stock driver).
HOST_4090 = HostSpec(
    staging_bytes_per_second=13e9, io_memory_bytes_per_second=120e9, cross_socket_bytes_per_second=40e9
)
# A workstation board: the pair of RTX 4090 whose trainings fit 6.5 GB/s (lambdal/deeplearning-benchmark).
HOST_SMALL = HostSpec(
    sockets=1, cpus=32, memory_bytes=256e9, staging_bytes_per_second=6.5e9, io_memory_bytes_per_second=60e9
)
HOST_SERVER = HostSpec(cpus=112, memory_bytes=2048e9, disk_bytes_per_second=3.5e9)

RTX5090_X8 = NodePlan(slots("rtx5090", 8), HOST_5090)
RTX5090_X4 = NodePlan(slots("rtx5090", 4), HOST_5090)
RTX4090_X8 = NodePlan(slots("rtx4090", 8), HOST_4090)
RTX4090_X4 = NodePlan(slots("rtx4090", 4), HOST_4090)
RTX4090_X2 = NodePlan(slots("rtx4090", 2, sockets=1), HOST_SMALL)
# Two cards share the lanes of one slot: x8 each.
RTX4090_X4_NARROW = NodePlan(slots("rtx4090", 4, slot_lanes=8), HOST_4090)
RTX4090_X8_OLD_DRIVER = NodePlan(slots("rtx4090", 8, slot_lanes=8), HOST_4090, driver="535.230.02")
RTX3090_X4 = NodePlan(
    slots("rtx3090", 4), HostSpec(staging_bytes_per_second=7e9), driver="550.144.03", queue_windows=True
)
H100_SXM_X8 = NodePlan(slots("h100sxm", 8, per_switch=2), HOST_SERVER)
A100_SXM_X8 = NodePlan(slots("a100sxm", 8, per_switch=2), HostSpec(cpus=128, switch_generation=4))
# 4 x A100 SXM without NVLink and peer access were measured at 5.2 GB/s.
A100_SXM_VM = NodePlan(
    slots("a100sxm", 8),
    HostSpec(cpus=96, nvlink_works=False, peer_access=False, staging_bytes_per_second=5.2e9),
    virtualization="kvm",
    acs_enabled=None,
    iommu="",
)
A100_PCIE_X8 = NodePlan(slots("a100pcie", 8), HostSpec(cpus=96))
L40S_X4 = NodePlan(slots("l40s", 4), HOST_SERVER)
