"""Was the last card worth it: efficiency, slowdown, the smallest count that is as fast, and which cards. Pure."""

from gpumon.scaling.follow import Memory, Scalings, Seen, follow, initial_memory

__all__ = ["Memory", "Scalings", "Seen", "follow", "initial_memory"]
