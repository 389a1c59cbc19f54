"""How the work is cut up over the cards: cuts that the links are too slow for, and cuts that nothing calls for.

Memory that a model needs is bounded by what it holds now: mixed-precision Adam keeps 16 bytes a parameter, ZeRO-1
4 + 12 / N, ZeRO-2 2 + 14 / N, ZeRO-3 and FSDP 16 / N (ZeRO paper). What is held beyond that (activations, buffers)
makes the bounds safe ones.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import gigabytes, percent
from gpumon.analysis.findings import gains, signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.subject import POOLS, Subject
from gpumon.analysis.strategy import LAYERED, REPLICATED, SHARDED, WORKS
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

# Of the time: below this a change of the exchange is not worth a restart.
EXPOSED = 0.25
# RX or TX in use for this share of the step: the links are the pace (published: 38 % of the step at accumulation 1).
DUTY = 0.4
ROOM = 0.9  # of the card's memory that a job may fill
ACCUMULATE = (4, 16)  # what is advised
# One process hands out and collects: DDP's ring moves 2 (N - 1) / N of the gradients each way, card 0 N - 1 times.
OF_ONE_CARD = 0.85  # what all cards hold together must be less, of one card, to say that it fits there
SMALL_BATCH_MEMORY = 0.4  # of the card's memory in use, at most
SMALL_BATCH_POWER = 0.6  # of the limit, at most
# A DDP step exchanges at most 4-byte gradients over 16 bytes of state; packets add up to 13 %.
MOST_GRADIENTS = 4 / 16 * 1.13


def _exposed(subject: Subject, edge: float) -> bool:
    """Return True where the cards mostly wait for their exchange, in the verdict and in the split."""
    waits = subject.verdict.job_class is JobClass.COMMUNICATION
    return waits and subject.mean_share("communication", "peer_wait") >= EXPOSED * edge


def _said_exposed(subject: Subject) -> str:
    low, high = subject.share("communication", "peer_wait")
    return f"{percent(low)} to {percent(high)} of the time goes to exchange that nothing hides"


def _rate(subject: Subject) -> float:
    rates = [facts.seen.pcie.rate for facts in subject.cards if not math.isnan(facts.seen.pcie.rate)]
    return sum(rates) / len(rates) if rates else math.nan


def _fullest(subject: Subject) -> float:
    """Return the largest share of memory in use on any of the cards."""
    return max(facts.memory_share for facts in subject.cards)


def tp_over_pcie(subject: Subject, edge: float) -> Found | None:
    """Every layer waits for an all-reduce over PCIe."""
    if subject.strategy.strategy not in LAYERED or subject.nvlink or subject.size < 2:
        return None
    if not _exposed(subject, edge):
        return None
    degree = subject.layout.tensor_parallel
    asked = f" (asked for: {degree} cards)" if degree > 1 else ""
    return Found(
        (
            f"tensor parallelism over {subject.size} cards without NVLink{asked}: {_said_exposed(subject)}",
            f"{gigabytes(_rate(subject))} cross each card's link",
        ),
        # One copy a card has no exchange at all; pipeline stages keep a bubble.
        gains.removing(subject.share("communication", "peer_wait"), (0.5, 1.0)),
    )


def tp_uneven(subject: Subject, edge: float) -> Found | None:
    """The sizes that were asked for use fewer cards than the job was given."""
    layout = subject.layout
    wanted = layout.tensor_parallel * max(1, layout.pipeline_parallel) * max(1, layout.data_parallel)
    if layout.tensor_parallel < 2 or wanted != subject.size or not subject.given:
        return None
    return Found(
        (
            f"asked for: tensor-parallel size {layout.tensor_parallel}, which uses {subject.size} of the "
            f"{subject.job.allocated} cards the job has; {counted(len(subject.given), 'card')} without a process",
        )
    )


def needless_sharding(subject: Subject, edge: float) -> Found | None:
    """Weights are fetched in every step although a replica would fit."""
    if subject.strategy.strategy not in SHARDED or not _exposed(subject, edge):
        return None
    n, held = subject.size, _fullest(subject)
    zero2 = held * (2 + 14 / n) / (16 / n)
    zero1 = held * (4 + 12 / n) / (16 / n)
    if zero2 > ROOM / edge:
        return None
    steps = max(1, subject.layout.accumulation)
    # Sharded weights cross three times in each small batch; ZeRO-2 sends gradients each time and weights once a step.
    least = 1.0 - (2 * steps + 2) / (6 * steps)
    most = 1.0 - 4 / (6 * steps) if zero1 <= ROOM else least
    fits = f"ZeRO-2 would hold at most {percent(zero2)}" + (f", ZeRO-1 {percent(zero1)}" if zero1 <= ROOM else "")
    return Found(
        (
            f"weights are cut over {n} cards that use {percent(held)} of their memory; {fits}",
            _said_exposed(subject),
        ),
        gains.removing(subject.share("communication"), (least, max(least, most))),
    )


def no_accumulation(subject: Subject, edge: float) -> Found | None:
    """Gradients of replicas cross after every small batch, and the links are busy for much of the step."""
    if subject.strategy.strategy not in REPLICATED or subject.layout.accumulation > 1 or not _exposed(subject, edge):
        return None
    duty = sum(facts.seen.pcie.busy[1] for facts in subject.cards) / subject.size
    if duty < DUTY * edge:
        return None
    step = f" of {subject.step_s:.2f} s" if not math.isnan(subject.step_s) else ""
    # The optimizer, which is what replicas spend on card memory, runs once an exchange as well.
    share = subject.share("communication", "memory")
    gain = None
    if not math.isnan(share[0]):
        low, high = (gains.accumulating(share[at], ACCUMULATE[at]) for at in (0, 1))
        gain = round(low, 2), round(high, 2)
    return Found(
        (
            f"the links are busy for up to {percent(duty)} of each step{step}: {_said_exposed(subject)}",
            "no gradient accumulation was asked for" if "cmdline" in subject.layout.privileges else "seen from traffic",
        ),
        gain,
    )


def accumulation_syncs(subject: Subject, edge: float) -> Found | None:
    """Gradients are accumulated and cross after every small batch all the same."""
    steps = subject.layout.accumulation
    if steps < 2 or not _exposed(subject, edge):
        return None
    gain = gains.removing(subject.share("communication"), (0.5 * (1 - 1 / steps), 1 - 1 / steps))
    if subject.strategy.strategy == "zero2":
        return Found(
            (
                f"asked for: ZeRO-2 with {steps} accumulated batches; it sends gradients after each of them",
                _said_exposed(subject),
            ),
            gain,
        )
    if subject.strategy.strategy != "ddp" or math.isnan(subject.step_s):
        return None
    held = sum(facts.seen.memory_used for facts in subject.cards) / subject.size
    part = 2 * (subject.size - 1) / subject.size
    most = part * MOST_GRADIENTS * held
    sent = _rate(subject) * subject.step_s
    if sent < 1.3 * most * edge:
        return None
    return Found(
        (
            f"{sent / 1e9:.1f} GB cross each link in a step of {subject.step_s:.2f} s; one exchange of all gradients "
            f"of a model of this size is at most {most / 1e9:.1f} GB, and {steps} batches are accumulated",
            _said_exposed(subject),
        ),
        gain,
    )


def batch_small(subject: Subject, edge: float) -> Found | None:
    """A training leaves most of the memory free and little power drawn, and pays for it in exchange or launches."""
    if subject.serving or subject.layout.framework in POOLS or not subject.strategy.strategy:
        return None
    launches = subject.verdict.job_class is JobClass.HOST and subject.verdict.detail == "launch"
    exchanges = subject.strategy.strategy in (*REPLICATED, "zero2", *SHARDED) and _exposed(subject, edge)
    if not launches and not exchanges:
        return None
    power = max(facts.seen.power_mean / facts.seen.power_limit for facts in subject.cards)
    held = _fullest(subject)
    if held > SMALL_BATCH_MEMORY / edge or power > SMALL_BATCH_POWER / edge:
        return None
    return Found(
        (
            f"at most {percent(held)} of the memory is in use and {percent(power)} of the power limit drawn",
            _said_exposed(subject) if exchanges else "kernels are shorter than the time it takes to launch them",
        )
    )


def data_parallel(subject: Subject, edge: float) -> Found | None:
    """One process copies the model to all cards in every step."""
    if subject.strategy.strategy != "dataparallel":
        return None
    n = subject.size
    return Found(
        (subject.strategy.why,),
        gains.removing(subject.share("communication", "peer_wait", "host_wait"), (0.5 * (1 - 2 / n), 1 - 1 / n)),
    )


def device_map_training(subject: Subject, edge: float) -> Found | None:
    """The cards of one process take turns, and nothing says that it is a server."""
    if subject.strategy.strategy != "device_map" or subject.serving:
        return None
    busy = sum(1.0 - facts.seen.gap for facts in subject.cards)
    if not busy >= WORKS:
        return None
    # All cards at once instead of one: at least half of that, with a model that is quantised to fit.
    return Found(
        (subject.strategy.why,), (round(min(subject.size, max(1.0, 0.5 * subject.size / busy)), 2), float(subject.size))
    )


def layer_split_one_stream(subject: Subject, edge: float) -> Found | None:
    """A server whose cards take turns: more of them make no stream faster."""
    layered = subject.strategy.strategy in ("pp", "device_map")
    if subject.layout.framework != "llama.cpp" or not layered or subject.size < 2:
        return None
    busy = sum(1.0 - facts.seen.gap for facts in subject.cards)
    if not WORKS < busy <= 1.25 / edge:
        return None
    return Found(
        (
            f"its {subject.size} cards are busy {percent(busy)} of the time, all together: one works while the others "
            "stand still",
        )
    )


def replicas_instead(subject: Subject, edge: float) -> Found | None:
    """What all cards hold together fits on one, and they wait for each other."""
    cut = subject.strategy.strategy in (*LAYERED, "pp", "device_map")
    if not cut or subject.size < 2 or subject.layout.framework in POOLS:
        return None
    waits = subject.verdict.job_class is JobClass.COMMUNICATION
    if not waits or subject.mean_share("communication", "peer_wait") < EXPOSED * edge:
        return None
    together = sum(facts.seen.memory_used for facts in subject.cards)
    least = min(facts.memory_total for facts in subject.cards)
    if together > OF_ONE_CARD / edge * least:
        return None
    return Found(
        (
            f"all {subject.size} cards together hold {together / 1e9:.0f} GB; one has {least / 1e9:.0f} GB",
            _said_exposed(subject),
        ),
        gains.removing(subject.share("communication", "peer_wait"), (0.6, 1.0)),
    )


def needless_offload(subject: Subject, edge: float) -> Found | None:
    """State of a training lives in host memory although the cards would hold it."""
    if subject.strategy.strategy != "offload" or subject.serving or subject.verdict.job_class is not JobClass.HOST:
        return None
    n, held = subject.size, _fullest(subject)
    # Two bytes a parameter stay on the card; what is away is at most 14 / N of them for each.
    wanted = held * (1 + 7 / n)
    if wanted > ROOM / edge:
        return None
    low, high = subject.share("host_wait")
    return Found(
        (
            f"the cards use {percent(held)} of their memory; with the optimizer on them it would be at most "
            f"{percent(wanted)}",
            f"no kernel runs {percent(low)} to {percent(high)} of the time",
        ),
        gains.removing((low, high), (0.5, 0.95)),
    )


def asked_not_seen(subject: Subject, edge: float) -> Found | None:
    """The launch says one thing over all cards and each card is seen to work by itself."""
    seen = subject.strategy
    if not seen.contradicts or seen.strategy != "independent" or subject.size < 2:
        return None
    return Found((f"asked for: {seen.asked} over {subject.size} cards; seen: {seen.why}",))


_EXCHANGE = (signals.STRATEGY, signals.PCIE, signals.TIME_SPLIT)

DETECTORS: tuple[Detector[Subject], ...] = (
    Detector("tp_over_pcie", _EXCHANGE, tp_over_pcie),
    Detector("tp_uneven", (signals.COMMAND_LINE, signals.ALLOCATION), tp_uneven, looks=3, any_class=True),
    Detector("needless_sharding", (*_EXCHANGE, signals.MEMORY), needless_sharding),
    Detector("no_accumulation", _EXCHANGE, no_accumulation),
    Detector("accumulation_syncs", (*_EXCHANGE, signals.COMMAND_LINE, signals.MEMORY), accumulation_syncs),
    Detector("batch_small", (*_EXCHANGE, signals.MEMORY, signals.POWER, signals.POWER_LIMIT), batch_small, looks=3),
    Detector("data_parallel", (signals.PROCESS_LIST, signals.PCIE, signals.UTILIZATION), data_parallel),
    Detector("device_map_training", (signals.PROCESS_LIST, signals.UTILIZATION), device_map_training),
    Detector("layer_split_one_stream", (signals.COMMAND_LINE, signals.UTILIZATION), layer_split_one_stream),
    Detector("replicas_instead", (signals.STRATEGY, signals.MEMORY, signals.TIME_SPLIT), replicas_instead),
    Detector("needless_offload", (signals.STRATEGY, signals.MEMORY, signals.TIME_SPLIT), needless_offload),
    Detector("asked_not_seen", (signals.COMMAND_LINE, signals.PCIE, signals.UTILIZATION), asked_not_seen, looks=4),
)
