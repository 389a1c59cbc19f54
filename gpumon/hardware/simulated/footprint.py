"""How much device memory a job's ranks hold, from what their strategy keeps where.

Mixed-precision Adam keeps 16 bytes a parameter: 2 for weights, 2 for gradients, 12 for master weights and moments
(ZeRO paper). ZeRO-1 spreads the 12, ZeRO-2 the gradients too, ZeRO-3 everything.
"""

from __future__ import annotations

from gpumon.hardware.simulated.cards import CardSpec
from gpumon.hardware.simulated.scenario import Burn, JobPlan
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training

CONTEXT_BYTES = 426 * 2.0**20  # one CUDA context as seen on a rank's foreign card
_POOL_SHARE = 0.90  # of the card, which vLLM takes at start whatever the load


def memory_bytes(plan: JobPlan, rank: int, card: CardSpec) -> float:
    """Return the bytes one rank holds on its card, its context left out; never more than fits."""
    workload = plan.workload
    if isinstance(workload, Training):
        held = _training_bytes(workload, rank, len(plan.cards))
    elif isinstance(workload, Serving):
        held = _serving_bytes(workload, rank, len(plan.cards), card)
    elif isinstance(workload, Burn):
        held = 0.3 * card.memory_bytes
    else:
        held = workload.memory_bytes
    return min(held, 0.96 * card.memory_bytes - CONTEXT_BYTES)


def _training_bytes(plan: Training, rank: int, ranks: int) -> float:
    weights = plan.model.parameters
    trained = plan.trained_parameters or weights
    state = {
        "zero1": 4 * weights + 12 * trained / ranks,
        "zero2": 2 * weights + 14 * trained / ranks,
        "zero3": 16 * weights / ranks,
        "fsdp": 16 * weights / ranks,
        "tp": 16 * weights / ranks,
        "pp": 16 * weights / ranks,
        "device_map": 16 * weights / ranks,
        "offload": 2 * weights + 2 * weights / ranks,
    }.get(plan.strategy, 2 * weights + 14 * trained)
    # Activations with selective recomputation: about 34 bytes a token, layer and hidden unit, a third kept.
    activations = 34 / 3 * plan.micro_batch * plan.sequence * plan.model.hidden * plan.model.layers
    if plan.strategy in ("tp", "pp", "device_map"):
        activations /= ranks
    if plan.strategy == "pp":
        activations *= max(1, ranks - rank)  # earlier stages keep more micro-batches in flight
    if plan.strategy == "device_map":
        activations *= 1 + 0.25 * rank
    if plan.strategy == "dataparallel":
        state = 16 * weights if rank == 0 else 4 * weights
        activations *= 1.6 if rank == 0 else 1.0
    return state + activations


def _serving_bytes(plan: Serving, rank: int, ranks: int, card: CardSpec) -> float:
    if plan.split == "tp" or ranks == 1:
        return _POOL_SHARE * card.memory_bytes
    on_cards = plan.weights * (1.0 - plan.host_share)
    cache = plan.batch * plan.context_tokens * plan.model.cache_bytes_per_token()
    return on_cards / ranks * (1.0 + 0.08 * rank) + cache / ranks
