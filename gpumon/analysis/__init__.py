"""What holds each job back: links, card activity, time split, verdict. Pure: no clock, thread, file or randomness."""

from gpumon.analysis.analyse import analyse, initial_memory
from gpumon.analysis.memory import Analysis, AnalysisMemory

__all__ = ["Analysis", "AnalysisMemory", "analyse", "initial_memory"]
