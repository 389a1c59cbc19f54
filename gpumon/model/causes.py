"""The causes in words: what each looks like, what it is confused with, what to change, how to check.

One row for each class and detail of CONTRACT. Verdicts take their advice from here, `docs/causes.md` all of it.
Chinese is in `causes_zh.py`. How each is recognised is written in its file in `analysis/causes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.model.causes_zh import CHINESE
from gpumon.model.verdict import JobClass


@dataclass(frozen=True, slots=True)
class CauseKind:
    """One row."""

    job_class: JobClass
    detail: str  # "" for the classes without
    title: str
    looks: str
    confused: str
    advice: str
    check: str

    @property
    def key(self) -> str:
        """`class` or `class.detail`."""
        return f"{self.job_class.value}.{self.detail}" if self.detail else self.job_class.value

    @property
    def chinese(self) -> tuple[str, str, str, str, str]:
        """Title, looks, confused, advice and check in Chinese."""
        return CHINESE[self.key]


CAUSES: tuple[CauseKind, ...] = (
    CauseKind(
        JobClass.COMPUTE,
        "",
        "Computing",
        "Kernels run nearly all the time, power is near the highest the card draws, links are quiet or busy behind the work.",
        "Waiting inside a collective: as high a utilization, a fraction of the power. Small matrix products draw little and still compute.",
        "Nothing holds the cards back. To go faster, use lower precision, fused kernels (torch.compile, FlashAttention) or more cards.",
        "Time per step falls while power stays.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "bandwidth",
        "Waits for data between cards: each card's own link is full",
        "While data moves, the link carries 80 % and more of what it can, both directions in the same instant, and power falls.",
        "A shared link that is full: every card levels off lower. Traffic behind the work: power stays up.",
        "Exchange less and less often: accumulate gradients, enlarge the batch, cut the model into stages instead of layers, or use fewer cards. A card in a narrow slot needs a wider one.",
        "The share of communication in the time split falls and samples per second rise.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "uplink",
        "Waits for data between cards: something they share is full",
        "Busy links of all cards level off at one rate, well below what each could carry; or a shared bridge is near its limit.",
        "The card's own link full (it levels off higher). A small message rate (no level at all).",
        "Use cards under one switch or on one socket, fewer cards, or exchange less often (accumulation). Without direct access between cards every byte crosses host memory.",
        "The rate at which the links level off rises, or the share of communication falls.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "latency",
        "Waits for many small messages between cards",
        "Kernels are resident all the time at low power, with small, steady traffic, the same on all cards and in both directions.",
        "Decode on one card (no traffic, memory busy). Small matrix products (no traffic).",
        "Use fewer cards for each copy of the model, or serve more requests at once, so that each message carries more. Tensor parallelism over PCIe costs 2 to 4 ms a token in waiting alone.",
        "Tokens per second of all copies together rise.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "host_path",
        "Data between cards goes through the CPU",
        "Utilization is low on all cards at once, CPUs are busy, and the loopback network device carries the gradients.",
        "Waiting for input and offload: nothing passes through loopback.",
        "Use the nccl backend, and leave shared memory on (no NCCL_SHM_DISABLE, /dev/shm of 1 GB and more, one container for all ranks).",
        "The loopback device is quiet and steps are several times shorter.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "straggler",
        "The other cards wait for one",
        "One card works longer than the others, or its narrow link sets the pace; the others wait at full utilization and low power.",
        "Stages of unequal size (nobody waits at full utilization). Differences under 8 % of a step are normal.",
        "Look at the named card: heat, power limit, link, or more work on its process than on the others'.",
        "No card is named any more and steps are shorter.",
    ),
    CauseKind(
        JobClass.COMMUNICATION,
        "pipeline_bubble",
        "Stages of a pipeline wait for their turn",
        "Cards work one after the other, or with a fixed delay from neighbour to neighbour; little traffic, between neighbours only.",
        "Independent jobs (no common period). Latency (all cards wait at once).",
        "Use more micro-batches in each step: the empty share is (p - 1) / (m + p - 1) for p stages and m micro-batches. To serve, handle several requests at once.",
        "Each card is busy for a larger share of the time.",
    ),
    CauseKind(
        JobClass.MEMORY,
        "",
        "Bound by the cards' own memory",
        "The memory controller is busy 80 % and more, clocks at their highest, power clearly below the limit, links quiet.",
        "Tensor-parallel decode (memory 30 to 60 % and small steady traffic: that is latency).",
        "Handle more requests at once, quantise the weights, or use cards with faster memory. More compute does not help.",
        "Tokens per second rise with the batch while memory activity stays.",
    ),
    CauseKind(
        JobClass.HOST,
        "input",
        "Cards wait for input",
        "Utilization drops to zero between batches, loader processes or the disk are busy, the links carry little.",
        "Launch-bound work (no loaders, no reads). One core at 100 % proves nothing: waiting for a card spins.",
        "Use more loader workers (4 to 8 a card) with pin_memory, prepare data beforehand, and keep it on a local NVMe disk.",
        "Utilization no longer drops to zero between steps.",
    ),
    CauseKind(
        JobClass.HOST,
        "checkpoint",
        "Cards wait while a checkpoint is written",
        "One card runs nothing while the others stand at full utilization and low power, and the job writes to disk.",
        "Waiting for input (reads instead of writes). A hang (nothing is written).",
        "Save less often, in the background, or let every process save its own part (distributed checkpoint).",
        "Pauses are shorter or rarer.",
    ),
    CauseKind(
        JobClass.HOST,
        "offload",
        "Cards wait for weights or optimizer state kept in host memory",
        "Long pauses without kernels while CPUs are busy; bursts on the link in one direction, then in the other.",
        "Collectives (both directions at once). Waiting for input (little traffic, no sends).",
        "Switch offload off where memory allows; else use an 8-bit optimizer, LoRA, or a smaller model, and give the CPUs all their cores.",
        "Pauses and bursts disappear.",
    ),
    CauseKind(
        JobClass.HOST,
        "launch",
        "Kernels are shorter than it takes to start them",
        "Many short gaps, low power, quiet links, one thread of each process at 100 %, no loaders and no disk.",
        "Waiting for input (loaders, reads). A core that spins in a wait (no gaps then).",
        "Enlarge the batch, use CUDA graphs or torch.compile, and avoid reading values back in every step (.item(), print).",
        "Utilization and power rise together.",
    ),
    CauseKind(
        JobClass.THROTTLED,
        "power",
        "Slowed by a lowered power limit",
        "The limit is at least a tenth below the card's default, power stands at it, the clock is below its highest.",
        "A card at its default limit: meeting it under load is normal.",
        "Ask the operator whether the limit is meant; half the power still gives a little over half the speed.",
        "The limit is the default again.",
    ),
    CauseKind(
        JobClass.THROTTLED,
        "thermal",
        "Slowed by heat",
        "The driver names heat, temperature stands at its limit, power below its own, the clock falls.",
        "A hot card that keeps its clock: no loss.",
        "Airflow, fans, dust, inlet temperature, a free slot between cards: the operator's work.",
        "The thermal reasons are gone under load.",
    ),
    CauseKind(
        JobClass.THROTTLED,
        "brake",
        "Slowed by the power brake",
        "The driver names the brake; clock and power fall together.",
        "Heat (its own reason). The ordinary power cap.",
        "Power supplies, cables and their load: the operator's work. Lower the power limit until it is repaired.",
        "The brake's reason is gone under load.",
    ),
    CauseKind(
        JobClass.IDLE,
        "",
        "Holds cards and does nothing",
        "No kernel for most of the time, power at its floor, links quiet, and nothing of the job at work on the host.",
        "A job whose host works while its cards wait (loading, offload).",
        "Release the cards, or give them work.",
        "The cards are busy, or no longer held.",
    ),
    CauseKind(
        JobClass.HUNG,
        "",
        "Stuck in a transfer",
        "Full utilization, flat low power, quiet links, untouched memory, and no progress on disk or network for five minutes.",
        "A checkpoint or an evaluation on one rank (its card has gaps, its host works). A long compilation (no kernel).",
        "Compare what each rank printed last, stop the job, start it again with NCCL_DEBUG=INFO.",
        "The step counter moves.",
    ),
    CauseKind(
        JobClass.UNKNOWN,
        "",
        "Not enough evidence",
        "Signals are missing, too short, or two causes are as likely.",
        "Nothing: this is an honest answer.",
        "Let it run for a minute. `gpumon doctor` says which signals are missing.",
        "A class is given.",
    ),
)

CAUSES_BY_KEY: dict[str, CauseKind] = {row.key: row for row in CAUSES}
