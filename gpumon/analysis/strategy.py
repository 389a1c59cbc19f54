"""How a job's work is cut up over its cards, as seen: from traffic, processes, memory and time, and the command line.

What was asked for (`Layout.asked`) and what is seen are kept apart. The command line is believed where nothing that
is seen speaks against it, because it tells apart what looks the same from outside (ZeRO-1 and DDP move the same
bytes). Where it is missing the shape alone decides, and says nothing where two strategies would look like this.

Volumes: a ring all-reduce of G bytes sends 2 (N - 1) / N G from each card, sharded weights three times (N - 1) / N of
the model in every micro-step. Memory: mixed-precision Adam holds 16 bytes a parameter on each card, or a share of them
(ZeRO paper). So the bytes of one step over the memory held have a most for each strategy, whatever the model's size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.analysis.shape import Shape
from gpumon.model.job import Job

# Strategies as they are named; asked for and seen use the same words.
STRATEGIES = (
    "single",
    "independent",
    "ddp",
    "zero1",
    "zero2",
    "zero3",
    "fsdp",
    "tp",
    "pp",
    "tp+pp",
    "tp+pp+dp",
    "offload",
    "dataparallel",
    "device_map",
)
# Every card takes part in one computation: all go at the pace of the slowest.
SYNCHRONOUS = frozenset(STRATEGIES) - {"single", "independent"}
EXCHANGING = SYNCHRONOUS - {"pp", "device_map", "offload"}  # by collectives
LAYERED = frozenset({"tp", "tp+pp", "tp+pp+dp"})
SHARDED = frozenset({"fsdp", "zero3"})
REPLICATED = frozenset({"ddp", "zero1"})  # gradients cross once a step

WORKS = 0.05  # of the time with a kernel: below, a card does nothing
LOOPBACK = 100e6  # bytes per second: gradients through sockets; NCCL's own handshakes are kilobytes
HOST_GAP = 0.15  # time without a kernel while the CPUs update
# CPUs beyond the one of each process that waits for its card by spinning.
HOST_CPUS = 1.0
IN_TURN = (0.6, 1.25)  # sum of the cards' busy shares
ALL_DAY = 0.85  # a card that works longer than this does not take turns
END_HALF = (0.3, 0.72)  # the first and the last stage have one neighbour, the others two
MIDDLE_EVEN = 0.7
FEEDING = 3.0  # times the others' traffic through the card that hands out and collects
AT_ONCE = 0.75  # collectives fill both directions in the same instant
APART = 0.45
EVEN = 0.75  # least card over most: collectives are even
STEADY_POWER = 0.15  # of the limit: layers and their collectives alternate faster than the sensor follows
# Bytes of one step over the memory held, at most; packets and headers add up to 13 % (256-byte payloads).
WIRE = 1.13
QUIET_SHARE = 0.18  # of the step: the forward pass of a replica is a third of its work and exchanges nothing


@dataclass(frozen=True, slots=True)
class Seen:
    """How the work is cut up, as seen."""

    strategy: str = ""  # "" where two would look alike
    asked: str = ""  # what the launch says, "" unknown
    by_shape: str = ""  # what the shape alone says
    why: str = ""  # one sentence with numbers
    contradicts: bool = False  # what was asked for cannot look like this


def recognise(job: Job, shape: Shape, *, step_s: float, loopback: float, process_cpus: float) -> Seen:
    """Return how the job's work is cut up.

    Args:
        shape: of the cards it has processes on.
        step_s: the period of its work, NaN unknown.
        loopback: bytes per second through its loopback device, NaN unknown.
        process_cpus: CPUs its GPU processes use together, NaN unknown.
    """
    asked = asked_of(job)
    by_shape, why = _by_shape(job, shape, step_s=step_s, loopback=loopback, process_cpus=process_cpus)
    if not asked:
        return Seen(by_shape, "", by_shape, why)
    if by_shape and not _agree(asked, by_shape):
        return Seen(by_shape, asked, by_shape, why, contradicts=True)
    return Seen(asked, asked, by_shape, why or "as asked for")


def asked_of(job: Job) -> str:
    """Return what the launch asked for, data parallelism over cut-up replicas included."""
    layout = job.layout
    if layout.offload and layout.asked not in ("", "tp", "pp"):
        return "offload"
    if layout.asked in ("tp+pp", "tp") and layout.data_parallel > 1:
        return "tp+pp+dp" if layout.asked == "tp+pp" else "tp"
    return layout.asked


# What may look like this although it was asked for under another name.
_ALSO = {
    "independent": frozenset[str](),
    "ddp": frozenset({"zero1", "zero2", "zero3", "fsdp", "tp+pp+dp", "tp", "offload"}),
    "zero1": frozenset({"zero2", "zero3", "fsdp", "ddp", "tp", "tp+pp+dp"}),
    "fsdp": frozenset({"zero3", "zero2", "zero1", "tp", "tp+pp+dp"}),
    "tp": frozenset({"tp+pp", "tp+pp+dp", "fsdp", "zero3", "zero2", "zero1", "ddp"}),
    "pp": frozenset({"tp+pp", "tp+pp+dp", "device_map"}),
    "offload": frozenset({"zero1", "zero2", "zero3", "fsdp"}),
    "device_map": frozenset({"pp", "offload", "tp+pp"}),
    "dataparallel": frozenset({"tp", "offload"}),
    "single": frozenset[str](),
}


def _agree(asked: str, seen: str) -> bool:
    return asked == seen or asked in _ALSO[seen]


def _by_shape(job: Job, shape: Shape, *, step_s: float, loopback: float, process_cpus: float) -> tuple[str, str]:
    cards, processes = len(shape.busy), len(job.processes)
    if cards == 0 or any(math.isnan(busy) for busy in shape.busy):
        return "", ""
    if cards == 1:
        return "single", "one card has a process of the job"
    if max(shape.busy) < WORKS:
        return "", ""
    if processes == 1:
        return _one_process(shape, process_cpus)
    if not shape.known:
        return "", ""
    if shape.quiet:
        if not shape.computes:
            return "", ""
        return "independent", f"{cards} cards work and their links carry next to nothing"
    gap = 1.0 - sum(shape.busy) / cards
    if loopback >= LOOPBACK:
        return "ddp", f"{loopback / 1e9:.1f} GB/s go through the loopback device"
    if gap >= HOST_GAP and process_cpus - processes >= HOST_CPUS * processes:
        return "offload", (
            f"no kernel runs {100 * gap:.0f} % of the time while {process_cpus:.0f} CPUs work; "
            f"{shape.total / 1e9:.1f} GB/s cross each link"
        )
    if _staged(shape):
        return "pp", "the cards at both ends carry half of what the others do"
    if not shape.even >= EVEN:
        return "", ""
    if shape.same_instant >= AT_ONCE:
        return _collectives(shape, cards, step_s)
    return "", ""


def _one_process(shape: Shape, process_cpus: float) -> tuple[str, str]:
    """One process that drives several cards."""
    working = [busy for busy in shape.busy if busy >= WORKS]
    if len(working) == 1:
        return "single", f"one process, and one of {len(shape.busy)} cards works"
    together = sum(shape.busy)
    others = [rate for rate in shape.rate[1:] if not math.isnan(rate)]
    first = shape.rate[0]
    leans = shape.lean[0]
    if shape.known and not shape.quiet and first >= FEEDING * _median(others) and leans >= 0.5:
        return "offload", f"card 0 receives {first / 1e9:.1f} GB/s and sends next to nothing; the others are quiet"
    if IN_TURN[0] <= together <= IN_TURN[1] and max(shape.busy) <= ALL_DAY:
        return "device_map", f"one process; its cards work one after the other, {100 * together:.0f} % in all"
    if not shape.known or shape.quiet:
        return "", ""
    hands_out = first >= 0.6 * (len(shape.rate) - 1) * max(others)
    if shape.same_instant <= APART and hands_out and together > IN_TURN[1]:
        return "dataparallel", (
            f"one process; card 0 moves {first / 1e9:.1f} GB/s each way, the others {_median(others) / 1e9:.1f}, "
            "first out and then back"
        )
    return "", ""


def _staged(shape: Shape) -> bool:
    """Return True where two cards carry half of what the others do: the ends of a pipeline."""
    ordered = sorted(shape.rate)
    if len(ordered) < 3:
        return False
    ends, middle = ordered[:2], ordered[2:]
    usual = _median(middle)
    within = all(END_HALF[0] * usual <= end <= END_HALF[1] * usual for end in ends)
    return within and middle[0] >= MIDDLE_EVEN * middle[-1]


def _collectives(shape: Shape, cards: int, step_s: float) -> tuple[str, str]:
    """Even, symmetric traffic in the same instant on every card: which collectives?"""
    part = (cards - 1) / cards
    said = f"all cards move {shape.total / 1e9:.1f} GB/s each way at once"
    if shape.power_swing <= STEADY_POWER and shape.humped <= 0.5:
        return "tp", f"{said}, without a pause, and power stands still between work and waiting"
    if math.isnan(step_s):
        return "", ""
    held = sum(shape.memory) / len(shape.memory)
    volume = shape.total * step_s / held
    pause = shape.quiet_run_s / step_s
    said += f", {100 * volume:.0f} % of the memory held in each step of {step_s:.2f} s"
    replica = 4 * part / 16 * WIRE  # 2-byte gradients over 16 bytes of state
    if volume <= replica:
        return ("ddp", f"{said}, with a pause of {100 * pause:.0f} %") if pause >= QUIET_SHARE else ("", "")
    if volume > 2 * replica and pause < QUIET_SHARE:
        return "fsdp", f"{said}, without a pause: more than gradients"
    if volume > 2 * replica:
        return "zero1", f"{said}, with a pause of {100 * pause:.0f} %: replicas hold only part of their state"
    return "", ""


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
