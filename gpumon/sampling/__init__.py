"""Asking the hardware: one schedule per card, one tick a second. Threads live here and nowhere below."""

from gpumon.sampling.sampler import Sampler

__all__ = ["Sampler"]
