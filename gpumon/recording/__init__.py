"""Ticks to a file and back, and ticks from the logs of other tools.

A recording keeps what the analysis needs, on a grid coarse enough for 5 MB an hour with 8 cards. While a recording
runs, the daemon judges the values of that same grid (`on_grid`), so a replay gives the verdicts that were given live.
"""

from gpumon.recording.grid import on_grid
from gpumon.recording.reader import read
from gpumon.recording.writer import Writer

__all__ = ["Writer", "on_grid", "read"]
