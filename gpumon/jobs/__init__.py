"""Who runs: from the processes on the cards to jobs, how they were launched, and whose they are. Pure."""

from gpumon.jobs.attribution import attribute
from gpumon.jobs.memory import Memory, initial_memory

__all__ = ["Memory", "attribute", "initial_memory"]
