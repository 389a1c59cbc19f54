"""What a job, or its server, says of its own throughput. Opt-in; never needed for a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class ReportSource(str, Enum):
    """How it was said."""

    SOCKET = "socket"  # a datagram; the kernel names the process that sent it
    FILE = "file"  # a text file in a folder
    SERVER = "server"  # the metrics page of the job's own inference server


@dataclass(frozen=True, slots=True)
class Report:
    """One statement. Who said it is what the kernel says of the sender, never what the text says.

    A job that serves tokens says `tokens_per_second`, one that trains `samples_per_second`; a step counter alone is
    enough to know the pace. NaN means not said.
    """

    mono_s: float  # when it was heard
    source: ReportSource
    pid: int = 0  # host pid of the sender, or of the server; 0 where a file names a container
    uid: int = -1  # owner of the file; -1 for other sources
    tenant: str = ""  # the tenant's own folder that the file lies in; "" outside of one
    container: str = ""  # id of the container that the file is named after, 12 characters
    samples_per_second: float = math.nan
    tokens_per_second: float = math.nan
    step: float = math.nan  # cumulative counter of steps
