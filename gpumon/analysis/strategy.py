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
from collections import Counter
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
RESIDENT = 0.05  # time without a kernel, at most, of stages that wait in kernels
# A stage's boundary is one activation for each micro-batch: megabytes a second to a few hundred (139 MB/s at most seen
# in a layer split, 1 % of the link).
BOUNDARY_BYTES_PER_SECOND = 600e6
END_HALF = (0.3, 0.72)  # the first and the last stage have one neighbour, the others two
MIDDLE_EVEN = 0.7
ALONE_BYTES_PER_SECOND = 64e6  # of a card, for its input; 0.2 % of PCIe generation 4
FEEDING = 3.0  # times the others' traffic through the card that hands out and collects
# Collectives fill both directions in the same instant; windows that see one direction at a time blur that where bursts
# are as short as their distance.
AT_ONCE = 0.3
APART = 0.45
EVEN = 0.75  # least card over most: collectives are even
SYMMETRIC = 0.2  # lean at most
# Windows fall on the bursts of a step by chance, and of a few hundred of them more on some cards than on others.
BLURRED_EVEN = 0.6
BLURRED_SYMMETRIC = 0.45
BLURRED_AT_ONCE = 0.2
UNEVEN_AT_ONCE = 0.6  # what a stage sends and what it receives may meet by chance
# Layers and their collectives take turns faster than the power sensor follows (tens of ms), so that its samples hardly
# spread. A replica that waits in its exchange for a tenth of the time, at a third of its working power, spreads them
# by sqrt(0.1 * 0.9) * 0.67 / 0.93 = 0.22 of the mean.
STEADY_POWER = 0.2
WAITS_POWER = 0.22
POOL_SHARE = 0.85  # of the memory: vLLM takes 0.9 at start, SGLang 0.85 to 0.9
SWINGS = 0.25
SHORTEST_STEP_S = 0.15  # a step shorter than this is as steady as layers are
SHORTEST_SEEN_S = 0.1  # where short looks show its bursts
POWER_FOLLOWS_S = 0.25  # steps shorter than this spread the power of some cards no more than layers do
# Looks at the link that are shorter than a gathered unit of weights (hundreds of megabytes, tens of ms) and longer than
# one layer's turn: all of the former show the rate the link levels off at, the latter show more and less of both.
SHORT_LOOK_S = 0.03
LEVEL = 1.12  # 90th over 50th percentile
ROUGH = 1.15
# Bytes of one step over the memory held, at most; packets and headers add up to 13 % (256-byte payloads).
WIRE = 1.13
# Pauses of a step without traffic: the forward pass of a replica is a third of its work and exchanges nothing, and
# sharded weights are fetched all along.
PAUSES = 0.15
NO_PAUSE = 0.12
# Gradients are a fifth of what the memory held allows, at least: less is what activations and stages send.
FEWEST_GRADIENTS = 0.2
LOOKS_KEPT = 6


@dataclass(frozen=True, slots=True)
class Told:
    """What the shape of one window told."""

    strategy: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """How the work is cut up, as seen."""

    strategy: str = ""  # "" where two would look alike
    asked: str = ""  # what the launch says, "" unknown
    by_shape: str = ""  # what the shape alone says
    why: str = ""  # one sentence with numbers
    contradicts: bool = False  # what was asked for cannot look like this


# Told by processes and by traffic that is there or not; the others are told by how much, which a wrong period spoils.
_FIRM = frozenset({"single", "independent", "dataparallel", "device_map"})
_ABSENT = frozenset({"pp", "device_map", "independent"})
_BY_AMOUNT = frozenset({"ddp", "zero1", "fsdp", "tp"})  # stand where half of the looks say so


def recognise(job: Job, recent: tuple[Told, ...]) -> Seen:
    """Return how the job's work is cut up.

    Args:
        recent: what the shape told at the last looks, oldest first.
    """
    asked, told = asked_of(job), _most(recent)
    if not asked:
        return Seen(told.strategy, "", told.strategy, told.why)
    if told.strategy in _FIRM and not _agree(asked, told.strategy):
        return Seen(told.strategy, asked, told.strategy, told.why, contradicts=True)
    return Seen(asked, asked, told.strategy, told.why or "as asked for")


def _most(recent: tuple[Told, ...]) -> Told:
    """Return what was told most often, the newest where that is not clear.

    What rests on absence (stages, turns, independence) gives way to an optimizer on the host, which is seen only at
    those looks that catch it at work; independence stands only when every look says so.
    """
    told = [one for one in recent if one.strategy]
    if not told:
        return Told()
    counts = Counter(one.strategy for one in told)
    best = max(reversed(told), key=lambda one: counts[one.strategy])
    if best.strategy in _ABSENT and counts["offload"]:
        return next(one for one in reversed(told) if one.strategy == "offload")
    if best.strategy in _BY_AMOUNT and 2 * counts[best.strategy] < len(recent):
        return Told()
    if best.strategy == "independent" and (len(told) < LOOKS_KEPT or len(counts) > 1):
        return next((one for one in reversed(told) if one.strategy != "independent"), Told())
    return best


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
    "single": frozenset[str](),
    # Stages exchange next to nothing, tokens of one user little, and an optimizer on the host only now and then.
    "independent": frozenset({"pp", "tp", "tp+pp", "tp+pp+dp", "device_map", "offload", "single"}),
    "dataparallel": frozenset({"tp", "offload"}),
    "device_map": frozenset({"pp", "offload", "tp+pp"}),
}


def _agree(asked: str, seen: str) -> bool:
    return asked == seen or asked in _ALSO[seen]


def by_shape(job: Job, shape: Shape, *, step_s: float, loopback: float, process_cpus: float) -> Told:
    """Return what the shape of one window tells, whatever was asked for.

    Args:
        shape: of the cards it has processes on.
        step_s: the period of its work, NaN unknown.
        loopback: bytes per second through its loopback device, NaN unknown.
        process_cpus: CPUs its GPU processes use together, NaN unknown.
    """
    cards, processes = len(shape.busy), len(job.processes)
    if cards == 0 or any(math.isnan(busy) for busy in shape.busy):
        return Told()
    if cards == 1:
        return Told("single", "one card has a process of the job")
    if max(shape.busy) < WORKS:
        return Told()
    if processes == 1:
        return _one_process(shape)
    if not shape.known:
        return Told()
    gap = 1.0 - sum(shape.busy) / cards
    if loopback >= LOOPBACK:
        return Told("ddp", f"{loopback / 1e9:.1f} GB/s go through the loopback device")
    if gap >= HOST_GAP and process_cpus - processes >= HOST_CPUS * processes:
        why = f"no kernel runs {100 * gap:.0f} % of the time while {process_cpus:.0f} CPUs work"
        return Told("offload", f"{why}; {shape.total / 1e9:.1f} GB/s cross each link")
    return _staged(shape, gap) or _alone(shape) or _collectives(shape, cards, step_s)


def _staged(shape: Shape, gap: float) -> Told | None:
    """Little traffic, and cards that wait in kernels for work: stages of a pipeline."""
    if shape.total > BOUNDARY_BYTES_PER_SECOND or gap > RESIDENT or not shape.power_swing >= SWINGS:
        return None
    if _ends_half(shape):
        return Told("pp", "the cards at both ends carry half of what the others do, and all wait in kernels at times")
    in_turn = shape.same_instant < (AT_ONCE if shape.even >= EVEN else UNEVEN_AT_ONCE)
    # Few of a minute's windows fall on a stage's boundary, on some cards more than on others.
    if shape.quiet or in_turn or (_short_looks(shape) and not shape.even >= EVEN):
        return Told("pp", f"cards wait in kernels for work while {shape.total / 1e6:.0f} MB/s cross each link")
    return None


def _alone(shape: Shape) -> Told | None:
    """No traffic to speak of: each card has its own work, if it works at all."""
    if not shape.quiet:
        return None
    # A five-hundredth of NVLink is what the tokens of a server take.
    if shape.total > ALONE_BYTES_PER_SECOND or not shape.computes or shape.power_swing >= SWINGS:
        return Told()
    return Told("independent", f"{len(shape.busy)} cards work and their links carry next to nothing")


def _one_process(shape: Shape) -> Told:
    """One process that drives several cards."""
    working = [busy for busy in shape.busy if busy >= WORKS]
    if len(working) == 1:
        return Told("single", f"one process, and one of {len(shape.busy)} cards works")
    together = sum(shape.busy)
    others = [rate for rate in shape.rate[1:] if not math.isnan(rate)]
    first = shape.rate[0]
    leans = shape.lean[0]
    if shape.known and not shape.quiet and first >= FEEDING * _median(others) and leans >= 0.5:
        return Told(
            "offload", f"card 0 receives {first / 1e9:.1f} GB/s and sends next to nothing; the others are quiet"
        )
    if IN_TURN[0] <= together <= IN_TURN[1] and max(shape.busy) <= ALL_DAY:
        return Told("device_map", f"one process; its cards work one after the other, {100 * together:.0f} % in all")
    if not shape.known or shape.quiet or not others:
        return Told()
    hands_out = first >= 0.6 * (len(shape.rate) - 1) * max(others)
    # With two cards both carry the same, and only taking turns tells.
    if hands_out and together > IN_TURN[1] and (len(others) > 1 or shape.same_instant <= APART):
        why = f"one process; card 0 moves {first / 1e9:.1f} GB/s each way, the others {_median(others) / 1e9:.1f}"
        return Told("dataparallel", f"{why}, first out and then back")
    return Told()


def _ends_half(shape: Shape) -> bool:
    """Return True where two cards carry half of what the others do: the ends of a pipeline."""
    ordered = sorted(shape.rate)
    if len(ordered) < 3:
        return False
    ends, middle = ordered[:2], ordered[2:]
    usual = _median(middle)
    within = all(END_HALF[0] * usual <= end <= END_HALF[1] * usual for end in ends)
    return within and middle[0] >= MIDDLE_EVEN * middle[-1]


def _collective(shape: Shape) -> bool:
    """Return True where every card moves as much as the others, and receives as much as it sends.

    Within what a copy of a batch adds, and what seeing only a part of the time does.
    """
    blurred = _short_looks(shape)
    lean = max(map(abs, shape.lean), default=math.nan)
    return shape.even >= (BLURRED_EVEN if blurred else EVEN) and lean <= (BLURRED_SYMMETRIC if blurred else SYMMETRIC)


def _collectives(shape: Shape, cards: int, step_s: float) -> Told:
    """Even, symmetric traffic on every card: which collectives?"""
    if not _collective(shape):
        return Told()
    part = (cards - 1) / cards
    said = f"all cards move {shape.total / 1e9:.1f} GB/s each way"
    held = _mean(shape.memory)
    volume = shape.total * step_s / held if held > 0.0 else math.nan
    of_replicas = volume / (4 * part / 16 * WIRE)
    of_shared = volume / (4 * part / (2 + 14 / cards) * WIRE)
    of_sharded = volume / (6 * part * cards / 16 * WIRE)  # 2-byte weights three times over a share of the state
    if _in_layers(shape, step_s, of_sharded):
        return Told("tp", f"{said}, and power stands still: layers and exchanges take turns faster than it follows")
    blurred = _short_looks(shape)
    if math.isnan(volume) or not shape.same_instant >= (BLURRED_AT_ONCE if blurred else AT_ONCE):
        return Told()
    said += f", {100 * volume:.0f} % of the memory held in each step of {step_s:.2f} s"
    return _by_volume(shape, step_s, said, (of_replicas, of_shared, of_sharded))


def _in_layers(shape: Shape, step_s: float, of_sharded: float) -> bool:
    """Return True where the exchange is that of layers which are cut over the cards.

    A training that computes all the time is as steady, but its traffic comes in bursts with a period. Shards that are
    fetched as fast as the links allow are steady, too. Servers fill a pool at start and hold it; without one only a
    volume that shards of this size would exceed tells layers from shards, and short looks at the link.
    """
    short = _short_looks(shape)
    if not shape.power_spread <= STEADY_POWER or of_sharded > 0.5:
        return False
    if step_s < (SHORTEST_SEEN_S if short else SHORTEST_STEP_S):
        return False
    if shape.humped >= 0.5 and not math.isnan(step_s):
        return False
    if shape.memory_share and min(shape.memory_share) >= POOL_SHARE:
        return True
    if short:
        return of_sharded <= 0.5 and shape.unevenness >= ROUGH
    return of_sharded <= 0.25


def _by_volume(shape: Shape, step_s: float, said: str, volume: tuple[float, float, float]) -> Told:
    """Tell replicas from shards by what crosses in a step.

    Args:
        volume: over the most that each can send for the memory held. Of replicas: all gradients once, 2 bytes each,
            where the state is whole on every card. Of replicas that share gradients and state (ZeRO-2): the same. Of
            shards: all weights three times, where each card holds its share of everything.
    """
    of_replicas, of_shared, of_sharded = volume
    pause = shape.quiet_run_s / step_s
    paused = pause >= PAUSES and shape.quiet_run_s >= 2 * shape.slot_s
    waits = shape.power_spread >= WAITS_POWER
    short = _short_looks(shape)
    if of_replicas <= 1.1:
        # A pause too short to be measured shows in slots that are either busy or quiet. Then the exchange is nearly all
        # there is, and little memory is left for anything but the state.
        full = of_replicas >= 0.5
        unseen = short and full and step_s <= POWER_FOLLOWS_S
        if shape.humped >= 0.5 and of_replicas >= FEWEST_GRADIENTS and (waits or unseen) and (paused or full):
            return Told("ddp", f"{said}, with a pause of {100 * pause:.0f} %: gradients, once")
        return Told()
    if of_sharded > 1.0:  # a period of several steps
        return Told()
    rough = shape.humped < 0.5 and short and not shape.unevenness <= LEVEL
    unbroken = pause <= NO_PAUSE and not rough and step_s >= 5 * shape.slot_s
    level = shape.humped < 0.5 and short and unbroken
    # Replicas that compute so much that they hardly wait exchange nothing in their forward pass.
    if unbroken and ((level and not waits) or (of_shared > 1.0 and of_sharded >= 0.5)):
        return Told("fsdp", f"{said}, without a pause: more than gradients, all along")
    if of_replicas <= 2.0:  # gradients of 4 bytes, or of replicas that share their state
        return Told()
    if waits and paused and of_sharded <= 0.5:
        return Told("zero1", f"{said}, with a pause of {100 * pause:.0f} %: replicas hold a part of their state")
    return Told()


def _short_looks(shape: Shape) -> bool:
    return shape.window_s <= SHORT_LOOK_S


def _mean(values: tuple[float, ...]) -> float:
    present = [value for value in values if not math.isnan(value)]
    return sum(present) / len(present) if present else math.nan


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
