"""Kernels of known kinds, models of known size: how long they take on a card and what they do to it.

Durations come from arithmetic (6 operations a parameter and token for a training step, 2 for a forward pass) over
what the card achieves, or from bytes over memory bandwidth, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from gpumon.hardware.simulated.cards import CardSpec, wire_bytes_per_second
from gpumon.hardware.simulated.physics import Work
from gpumon.hardware.simulated.timeline import Label


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer, or anything else counted the same way."""

    name: str
    parameters: float
    layers: int
    hidden: int
    kv_share: float = 1.0  # key and value heads over query heads

    def weight_bytes(self, element_bytes: float = 2.0) -> float:
        """Return the size of the weights."""
        return self.parameters * element_bytes

    def cache_bytes_per_token(self) -> float:
        """Return the size of one token's keys and values over all layers, 16-bit."""
        return 2 * 2 * self.layers * self.hidden * self.kv_share


RESNET50 = Model("resnet50", 25.6e6, 50, 512)
GPT_125M = Model("gpt-125m", 125e6, 12, 768)
BERT_LARGE = Model("bert-large", 335e6, 24, 1024)
GPT2_MEDIUM = Model("gpt2-medium", 355e6, 24, 1024)
MODEL_1B = Model("llama-1b", 1.24e9, 16, 2048, 0.25)
OPT_3B = Model("opt-3.4b", 3.4e9, 32, 2560)
MODEL_3B = Model("llama-3b", 3.2e9, 28, 3072, 0.33)
MODEL_8B = Model("llama-8b", 8.0e9, 32, 4096, 0.25)
MODEL_13B = Model("llama-13b", 13.0e9, 40, 5120)
MODEL_32B = Model("qwen-32b", 32.5e9, 64, 5120, 0.2)
MODEL_70B = Model("llama-70b", 70.6e9, 80, 8192, 0.125)


def training_seconds(card: CardSpec, model: Model, tokens: float, utilization: float, recompute: bool = False) -> float:
    """Return how long forward and backward take on one card that does all of it.

    `utilization` is the model's share of what large matrix products achieve on that card (0.4 to 0.8).
    """
    operations = (8 if recompute else 6) * model.parameters * tokens
    return operations / (card.tensor_flops * card.achievable_ratio * utilization)


def prefill_seconds(card: CardSpec, model: Model, tokens: float, cards: int, utilization: float = 0.7) -> float:
    """Return how long a forward pass over `tokens` takes when `cards` share each layer."""
    return 2 * model.parameters * tokens / (cards * card.tensor_flops * card.achievable_ratio * utilization)


def decode_seconds(card: CardSpec, weight_bytes: float, cache_bytes: float, cards: int) -> float:
    """Return how long one token takes for memory alone when `cards` share the weights and the cache."""
    return (weight_bytes + cache_bytes) / (cards * 0.85 * card.memory_bytes_per_second)


def optimizer_seconds(card: CardSpec, parameters: float) -> float:
    """Return how long Adam takes over `parameters` in mixed precision: about 28 bytes read or written for each."""
    return 28 * parameters / (0.85 * card.memory_bytes_per_second)


def training(intensity: float = 0.85, utilization: float = 0.6) -> Work:
    """Forward or backward of a large model. `intensity` is its power between awake (0) and dense tensor work (1)."""
    return Work(
        power=intensity,
        sm=0.92,
        tensor=0.65 * utilization,
        dram=0.42,
        memory_controller=0.46,
        labels={Label.COMPUTE: 1.0},
    )


def small_products(intensity: float = 0.45) -> Work:
    """Matrix products too small to fill the card: it computes all the time at low power."""
    return Work(power=intensity, sm=0.62, tensor=0.18, dram=0.2, memory_controller=0.26, labels={Label.COMPUTE: 1.0})


def filler() -> Work:
    """Single-precision products without tensor cores: 99 % utilization at about 55 % of the limit (H100)."""
    return Work(power=0.47, sm=0.99, tensor=0.0, dram=0.06, memory_controller=0.08, labels={Label.COMPUTE: 1.0})


def prefill(intensity: float = 0.8) -> Work:
    """Prompt processing: near the limit, memory hardly touched (8 to 10 % of time on 2 x RTX 5090)."""
    return Work(power=intensity, sm=0.97, tensor=0.5, dram=0.1, memory_controller=0.1, labels={Label.COMPUTE: 1.0})


def streaming(card: CardSpec, share: float = 0.85) -> Work:
    """A kernel bound by device memory that keeps it busy for `share` of the time: decode, optimizer, copies."""
    watts = card.watts
    power = (watts.memory - watts.awake) / (watts.compute - watts.awake) * share / 0.85
    return Work(
        power=power,
        sm=0.75,
        tensor=0.06,
        dram=share,
        memory_controller=min(share + 0.03, 0.97),
        labels={Label.MEMORY: 1.0},
        clock_bound=0.2,
    )


def launch_bound(kernel_share: float) -> Work:
    """Many kernels of microseconds that the CPU launches one by one: a kernel runs for `kernel_share` of the time."""
    return Work(
        power=0.32 * kernel_share,
        sm=0.4 * kernel_share,
        tensor=0.05 * kernel_share,
        dram=0.15 * kernel_share,
        memory_controller=0.18 * kernel_share,
        labels={Label.COMPUTE: kernel_share, Label.LAUNCH: 1.0 - kernel_share},
        kernel=kernel_share,
        clock_bound=kernel_share,
    )


def blend(parts: Sequence[tuple[Work, float]]) -> Work:
    """Return the mean of works that alternate faster than any sensor sees; the numbers are seconds of each."""
    total = sum(seconds for _, seconds in parts)
    labels: dict[Label, float] = {}
    means = dict.fromkeys((field.name for field in fields(Work) if field.name != "labels"), 0.0)
    for work, seconds in parts:
        share = seconds / total
        for name in means:
            means[name] += share * getattr(work, name)
        for label, part in work.labels.items():
            labels[label] = labels.get(label, 0.0) + share * part
    return Work(labels=labels, **means)


def exchange(card: CardSpec, rx: float, tx: float, nvlink: float, label: Label) -> Work:
    """A collective's kernel while it moves the given wire bytes per second (0: while it waits for messages)."""
    watts = card.watts
    full = wire_bytes_per_second(card.generation, card.lanes)
    moving = watts.spin + (watts.copy - watts.spin) * min(max(rx, nvlink / 8) / full, 1.0)
    return Work(
        power=(moving - watts.awake) / (watts.compute - watts.awake),
        sm=0.12,
        tensor=0.0,
        dram=0.02,
        memory_controller=0.03,
        labels={label: 1.0},
        occupancy=0.1,
        rx=rx,
        tx=tx,
        nvlink=nvlink,
        clock_bound=0.0,
    )
