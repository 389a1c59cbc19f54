"""gpumon says, for each job on a GPU node, what holds it back and what to change."""

__version__ = "0.1.0"
