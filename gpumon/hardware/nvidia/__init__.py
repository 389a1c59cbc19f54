"""NVIDIA cards through NVML: probing, reading, events, and what is thrown away."""

from gpumon.hardware.nvidia.node import NvmlNode

__all__ = ["NvmlNode"]
