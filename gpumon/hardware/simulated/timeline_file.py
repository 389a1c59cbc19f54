"""The timeline file: what physically happened on a simulated node, for readers in other languages.

The Python sensors and the C stand-in driver library look at the same truth through this file. It is written once and
memory-mapped; every question is answered by a binary search. All numbers are little-endian; every section starts on
a multiple of 8 bytes.

Layout
------
::

    offset  size                 content
    0       8                    magic, the bytes "GPUMONT1"
    8       4   uint32           text_bytes: length of the text section, a multiple of 8
    12      4   uint32           card_count
    16      4   uint32           channel_count C (the length of CHANNELS, 23 in this version)
    20      4   uint32           0
    24      8   float64          seconds: the file answers questions about 0 <= t <= seconds
    32      8*card_count uint64  n of each card: how many stretches its timeline has (n >= 1)
    ...     text_bytes           text section, UTF-8, lines ended by "\\n", padded with NUL bytes
    ...     per card, in order:
              n float64          t: start of each stretch, ascending, t[0] = 0; stretch i lasts until t[i+1], the last
                                 one until `seconds`
              C * n float64      rate: channel after channel, n values each: rate[c][i] holds during stretch i
              C * n float64      cumulative: channel after channel: cumulative[c][i] is the integral of rate[c] from
                                 0 to t[i]

    At time x, with i the last index whose t[i] <= x:
        rate of channel c      = rate[c][i]
        integral from 0 to x   = cumulative[c][i] + rate[c][i] * (x - t[i])      (exact: rates are constant in between)
        mean over [a, b]       = (integral(b) - integral(a)) / (b - a)

Channels, in order (rate; integral)
-----------------------------------
::

     0 pcie_rx             bytes/s on the wire, headers included, into the card; bytes
     1 pcie_tx             bytes/s out of the card; bytes
     2 nvlink_rx           bytes/s of data over all links; bytes
     3 nvlink_tx           bytes/s; bytes
     4 power               electrical watts; joules
     5 kernel              1 while at least one kernel runs (waiting inside a collective included), 0 else; a stretch
                           that stands for many short kernels has the share of time in between; seconds
     6 memory_controller   share of time in which device memory is read or written; seconds
     7 sm_active           share of SMs with a resident warp; seconds
     8 sm_occupancy        resident warps over maximum; seconds
     9 tensor_active       share of tensor-pipe cycles; seconds
    10 dram_active         share of peak memory bandwidth; seconds
    11 sm_clock            hertz; cycles
    12 memory_clock        hertz; cycles
    13 temperature         degrees Celsius of the GPU; no use
    14 memory_used         bytes in use by processes (reserved memory excluded); no use
    15 link_generation     1..6 as the link is trained at that moment (falls to 1 after about 10 s without work); no use
    16 link_width          lanes as trained; no use
    17 pcie_replays        replays per second; replays
    18 sw_power_cap        1 while the software power cap holds the clock down, 0 else; seconds
    19 sw_thermal          the same for software thermal slowdown; seconds
    20 hw_thermal          the same for hardware thermal slowdown; seconds
    21 hw_power_brake      the same for the power brake; seconds
    22 gpu_idle            1 once nothing has run for 10 s: clocks and link fall, the "GPU idle" reason is set; seconds

    The clock event reasons at x are the bits of channels 18-22 whose rate is 1: 0x4, 0x20, 0x40, 0x80 and 0x1;
    hw_slowdown 0x8 is set together with 0x40 or 0x80.

Text section
------------
Each line is words separated by single spaces; the last field of `node` and `card` lines runs to the end of the line
and may contain spaces. Numbers are decimal. Unknown first words are to be ignored.

::

    node KEY VALUE
    card INDEX KEY VALUE
    process INDEX PID KIND BYTES FROM_S TO_S SM_RATIO    on the card's list in FROM_S <= t < TO_S; KIND compute,
                                                        graphics or mps; SM_RATIO is its share of `kernel` time
    p2p INDEX_A INDEX_B LEVEL STATUS                     A < B; LEVEL as nvmlGpuTopologyLevel_t (0 10 20 30 40 50),
                                                        STATUS as nvmlGpuP2PStatus_t for every capability but NVLink;
                                                        cards joined by NVLink have `nvlink_peer` lines
    nvlink_peer INDEX LINK PEER                          active link LINK of the card ends at card PEER, or "switch"
    fault INDEX KIND FROM_S TO_S                         INDEX -1: every card. KIND lost (GPU_IS_LOST), reset_required,
                                                        driver_not_loaded, unknown, hung (the call does not return
                                                        before TO_S), garbage (impossible values: traffic and energy
                                                        far over capacity, utilization over 100, foreign pids)
    xid INDEX CODE AT_S
    ecc INDEX KIND COUNT AT_S                            KIND corrected or uncorrected; adds COUNT at AT_S

Keys of `node`: driver_version, cuda_version, hostname, seed, queue_windows (1: window calls of all cards run one after
the other; 0: they overlap), boot_wall_s (Unix time of t = 0).

Keys of `card` (booleans are 0 or 1; a key that a card lacks is not written):

    identity   name, uuid, bus_id (NVML form 00000000:41:00.0), architecture (nvmlDeviceArchitecture_t as a number),
               minor, numa_node
    limits     memory_total_bytes, memory_reserved_bytes, power_limit_watts, power_default_limit_watts,
               power_min_limit_watts, power_max_limit_watts, sm_clock_max_hertz, memory_clock_max_hertz,
               temperature_slowdown_celsius, temperature_shutdown_celsius,
               link_generation_max and link_width_max (card and slot together), card_generation_max, card_width_max
    abilities  counter_bits (width of fields 197/198: 0, 32 or 64), window (nvmlDeviceGetPcieThroughput answers),
               gpm, gpm_cumulative (metrics 255/256), power_instant (field 186), energy, process_util, bus_busy (the
               bus domain of GetDynamicPstatesInfo), ecc (unsupported, disabled, enabled), memory_temperature,
               nvlink_links, nvlink_version, nvlink_bytes_per_second (usable, one direction, all active links), mig
    sensors    window_s (0.02), power_average_s (what GetPowerUsage and field 185 average over; 0: instantaneous),
               power_refresh_s, power_lag_s and power_window_s (an instantaneous sample taken at x is the mean
               electrical power over [r - lag - window, r - lag], r being the last multiple of power_refresh_s up to
               x; before t = 0 the power of t = 0 holds), power_gain and power_offset_watts (this board's own error:
               reading = gain * power + offset), power_noise_watts (standard deviation), power_quantum_watts,
               ring_busy_s and ring_idle_s (the power ring has a sample at every multiple of ring_busy_s, but only at
               multiples of ring_idle_s while gpu_idle is 1),
               ring_length (119), energy_refresh_s (0.1: the energy counter shows the integral at the last multiple),
               utilization_ring_s (0.139: a sample at every multiple, the mean since the one before) and
               utilization_ring_length (72), utilization_period_s (what
               GetUtilizationRates averages over)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpumon.model.errors import RecordingError

MAGIC = b"GPUMONT1"
CHANNELS = (
    "pcie_rx",
    "pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "power",
    "kernel",
    "memory_controller",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "sm_clock",
    "memory_clock",
    "temperature",
    "memory_used",
    "link_generation",
    "link_width",
    "pcie_replays",
    "sw_power_cap",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
    "gpu_idle",
)
_HEADER = struct.Struct("<8sIIIId")
_ALIGN = 8


@dataclass(frozen=True, slots=True)
class CardTimeline:
    """One card's stretches. `t_s` has shape (n,), `rate` and `cumulative` (len(CHANNELS), n)."""

    t_s: npt.NDArray[np.float64]
    rate: npt.NDArray[np.float64]
    cumulative: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """The content of a timeline file."""

    seconds: float
    lines: tuple[str, ...]
    cards: tuple[CardTimeline, ...]


def write_timeline(path: Path, seconds: float, lines: Sequence[str], cards: Sequence[CardTimeline]) -> None:
    """Write a timeline file in the layout above."""
    text = "".join(line + "\n" for line in lines).encode()
    text += b"\0" * (-len(text) % _ALIGN)
    with path.open("wb") as out:
        out.write(_HEADER.pack(MAGIC, len(text), len(cards), len(CHANNELS), 0, seconds))
        out.write(np.array([card.t_s.size for card in cards], dtype="<u8").tobytes())
        out.write(text)
        for card in cards:
            for block in (card.t_s, card.rate, card.cumulative):
                out.write(np.ascontiguousarray(block, dtype="<f8").tobytes())


def read_timeline(path: Path) -> TimelineFile:
    """Return the content of a timeline file.

    Raises: RecordingError if it is not one, or not of this version.
    """
    content = path.read_bytes()
    if len(content) < _HEADER.size or content[: len(MAGIC)] != MAGIC:
        raise RecordingError(f"{path}: not a timeline file; it must begin with {MAGIC.decode()}")
    _, text_bytes, card_count, channel_count, _, seconds = _HEADER.unpack_from(content)
    if channel_count != len(CHANNELS):
        raise RecordingError(f"{path}: {channel_count} channels; this version reads {len(CHANNELS)}")
    offset = _HEADER.size
    sizes = np.frombuffer(content, "<u8", card_count, offset)
    offset += sizes.nbytes
    lines = content[offset : offset + text_bytes].rstrip(b"\0").decode().splitlines()
    offset += text_bytes
    cards = []
    for size in sizes.tolist():
        blocks = np.frombuffer(content, "<f8", size * (1 + 2 * channel_count), offset)
        offset += blocks.nbytes
        matrices = blocks[size:].reshape(2, channel_count, size)
        cards.append(CardTimeline(blocks[:size], matrices[0], matrices[1]))
    return TimelineFile(seconds, tuple(lines), tuple(cards))
