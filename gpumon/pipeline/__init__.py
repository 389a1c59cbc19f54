"""One tick in, one state out: jobs are attributed, judged and counted. Pure: the same ticks give the same states."""

from gpumon.pipeline.state import State, initial_state
from gpumon.pipeline.step import step

__all__ = ["State", "initial_state", "step"]
