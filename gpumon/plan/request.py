"""What is asked of a plan: the model, the cards, how the work is done. It is checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpumon.data.tables import Card, Model
from gpumon.model.errors import GpumonError

MAX_CARDS = 1024
# One chassis. Cards beyond it are reached over the network. 8 is the common rental node; 10 and 16 exist.
CARDS_PER_NODE = 8
# 25 Gbit/s Ethernet, the common network of rented nodes (two 8x RTX 4090 nodes ran over it: infini-ai 4090 best
# practice).
DEFAULT_NETWORK_BYTES_PER_SECOND = 25e9 / 8
TF32_ARCHITECTURES = frozenset({"ampere", "ada", "hopper", "blackwell"})
FP8_ARCHITECTURES = frozenset({"ada", "hopper", "blackwell"})


class PlanError(GpumonError):
    """The question cannot be answered: one sentence with the option, its value and what is allowed."""


class Method(str, Enum):
    """What is done with the model."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    INFERENCE = "inference"


class Strategy(str, Enum):
    """How the work is cut up over cards."""

    DDP = "ddp"
    TP = "tp"
    PP = "pp"
    FSDP = "fsdp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    OFFLOAD = "offload"
    EP = "ep"


class Precision(str, Enum):
    """Number format of the weights; training computes in it, inference stores the weights in it."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


class Optimizer(str, Enum):
    """Whose state the card holds: Adam in 32 bit, or with its two moments in 8 bit."""

    ADAM = "adam"
    ADAM8BIT = "adam8bit"


TRAINING_PRECISIONS = (Precision.BF16, Precision.FP16, Precision.FP32)
INFERENCE_STRATEGIES = (Strategy.DDP, Strategy.TP, Strategy.PP, Strategy.OFFLOAD)
GROUPED = (Strategy.TP, Strategy.PP)
DATA_PARALLEL = "ddp, fsdp, zero1, zero2, zero3 or offload"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its range. `typical` is what published runs on such hardware show, low and high are plausible."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True, slots=True)
class Request:
    """One question.

    batch: samples for each card and micro-batch. All layouts do the same work for each optimizer step:
        batch x accumulation x cards samples.
    group: cards that hold one copy of the model (tp, pp); the rest are further copies. None: all cards, or the best.
    concurrency: requests in flight in all; context: tokens of one request, of which output_tokens are generated.
    bandwidth: (cards, bytes per second) pairs, each card and direction, that the user states or the node has shown
        (learned); empty: typical for the topology. Between counts the next smaller one counts, below the first the
        first.
    one_card_rate: measured on one card: samples per second (training), output tokens per second (inference).
    """

    model: Model
    card: Card
    cards: int
    method: Method = Method.FULL
    strategy: Strategy | None = None
    group: int | None = None
    precision: Precision = Precision.BF16
    batch: int = 1
    sequence: int = 2048
    accumulation: int = 1
    recompute: bool = False
    optimizer: Optimizer = Optimizer.ADAM
    context: int = 2048
    output_tokens: int = 256
    concurrency: int = 32
    p2p: bool = False
    nvlink: bool = False
    pcie_generation: int = 4
    pcie_lanes: int = 16
    bandwidth: tuple[tuple[int, float], ...] = ()
    learned: bool = False
    network_bytes_per_second: float = DEFAULT_NETWORK_BYTES_PER_SECOND
    one_card_rate: float | None = None
    price_per_card_hour: float | None = None

    @property
    def trains(self) -> bool:
        """Return whether weights change."""
        return self.method is not Method.INFERENCE


def check(request: Request) -> None:
    """Raise PlanError for the first thing that makes the question meaningless or impossible."""
    _check_numbers(request)
    _check_method(request)
    if request.strategy is not None:
        _check_strategy(request, request.strategy)
    elif request.group is not None:
        raise PlanError(f"plan: --group {request.group} needs a strategy it belongs to; add --strategy tp or pp.")


def _check_numbers(request: Request) -> None:
    whole = (
        ("gpus", request.cards, 1, MAX_CARDS),
        ("batch", request.batch, 1, 65536),
        ("sequence", request.sequence, 1, 4_194_304),
        ("accumulation", request.accumulation, 1, 65536),
        ("context", request.context, 2, 4_194_304),
        ("output-tokens", request.output_tokens, 1, 4_194_304),
        ("concurrency", request.concurrency, 1, 65536),
    )
    for option, value, low, high in whole:
        if not low <= value <= high:
            raise PlanError(f"plan: --{option} {value} is out of range; use {low} to {high}.")
    if request.output_tokens >= request.context:
        raise PlanError(
            f"plan: --output-tokens {request.output_tokens} leaves no room for a prompt in --context "
            f"{request.context}; use less than {request.context}."
        )
    positive = (
        ("network", request.network_bytes_per_second),
        ("one-card-rate", request.one_card_rate),
        ("price", request.price_per_card_hour),
        *(("bandwidth", rate) for _, rate in request.bandwidth),
    )
    for option, number in positive:
        if number is not None and not 0 < number < float("inf"):
            raise PlanError(f"plan: --{option} {number:g} is not possible; use a number above 0.")
    for count, _ in request.bandwidth:
        if not 1 <= count <= MAX_CARDS:
            raise PlanError(f"plan: --bandwidth for {count} cards is not possible; use counts of 1 to {MAX_CARDS}.")
    if request.pcie_lanes not in (1, 2, 4, 8, 16):
        raise PlanError(f"plan: --pcie has {request.pcie_lanes} lanes; use 1, 2, 4, 8 or 16.")


def _check_method(request: Request) -> None:
    card, precision = request.card, request.precision
    if request.trains and precision not in TRAINING_PRECISIONS:
        raise PlanError(
            f"plan: --precision {precision.value} is not a training precision; use bf16, fp16 or fp32"
            " (for a 4-bit base model: --method qlora)."
        )
    if precision is Precision.BF16 and card.architecture not in TF32_ARCHITECTURES:
        raise PlanError(f"plan: {card.name} has no bf16; use --precision fp16 or fp32.")
    if precision is Precision.FP8 and card.architecture not in FP8_ARCHITECTURES:
        raise PlanError(f"plan: {card.name} has no fp8; use --precision bf16, fp16, int8 or int4.")
    if request.method is Method.INFERENCE and request.model.kind != "decoder":
        raise PlanError(
            f"plan: --method inference plans language models with a KV cache and {request.model.name} is not one;"
            " run one copy on each card, or use --method full or lora."
        )
    if request.nvlink and request.card.nvlink_kind == "none":
        raise PlanError(f"plan: --nvlink on is not possible, {card.name} has no NVLink; use --nvlink off.")


def _check_strategy(request: Request, strategy: Strategy) -> None:
    reason = impossible(request, strategy, request.cards, request.group)
    if reason is not None:
        raise PlanError(f"plan: --strategy {strategy.value} {reason}.")


def impossible(request: Request, strategy: Strategy, cards: int, group: int | None) -> str | None:
    """Return why this layout cannot exist, None if it can. The text continues the sentence '--strategy X ...'."""
    model = request.model
    size = group if group is not None else cards
    if not request.trains and strategy not in INFERENCE_STRATEGIES:
        return "cuts up optimizer and gradients, which inference does not have; use ddp (replicas), tp, pp or offload"
    if strategy not in GROUPED and group is not None:
        return f"has no groups, so --group {group} means nothing; leave it out, or use tp or pp"
    if strategy in GROUPED and model.kind == "image":
        return f"needs equal transformer layers, which {model.name} does not have; use {DATA_PARALLEL}"
    if strategy is Strategy.EP:
        return _impossible_experts(model, cards)
    if strategy in GROUPED:
        return _impossible_group(model, strategy, cards, size)
    return None


def _impossible_experts(model: Model, cards: int) -> str | None:
    if model.experts == 0:
        return f"needs a mixture of experts and {model.name} is dense; use tp, pp, {DATA_PARALLEL}"
    if model.experts % cards:
        allowed = [n for n in range(1, min(model.experts, MAX_CARDS) + 1) if model.experts % n == 0]
        count = f"the {model.experts} experts of {model.name}"
        return f"on {cards} cards does not divide {count}; use {_listing(allowed)} cards"
    return None


def _impossible_group(model: Model, strategy: Strategy, cards: int, group: int) -> str | None:
    if group < 1 or cards % group:
        return f"in groups of {group} does not divide {cards} cards; use a group of {_listing(_divisors(cards))}"
    if strategy is Strategy.TP and model.heads % group:
        heads = f"the {model.heads} attention heads of {model.name}"
        return f"over {group} cards does not divide {heads}; use {_listing(_divisors(model.heads))}"
    if strategy is Strategy.PP and group > model.layers:
        return f"over {group} cards needs a layer for each and {model.name} has {model.layers}; use 1 to {model.layers}"
    return None


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _listing(numbers: list[int]) -> str:
    texts = [str(n) for n in numbers]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " or " + texts[-1]
