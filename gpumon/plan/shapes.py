"""Model shapes: from the table, or a generic transformer from the parameter count; and what follows from a shape."""

from __future__ import annotations

import re

from gpumon.data import tables
from gpumon.data.tables import Card, Model
from gpumon.plan.request import Method, PlanError, Precision

_COUNT = re.compile(r"(\d+(?:\.\d+)?)([mbt])", re.IGNORECASE)
_SCALE = {"m": 1e6, "b": 1e9, "t": 1e12}
MIN_PARAMETERS, MAX_PARAMETERS = 1e6, 10e12
# Width over depth of published decoders: 102 (Llama 2 70B) to 150 (Qwen2.5 7B: 128), so 128.
WIDTH_OVER_DEPTH = 128
# From this size on, published decoders share 8 key-value heads (Llama 2/3 70B, Qwen2.5 32B and 72B). Smaller ones
# differ, and the generic shape takes the larger cache: one key-value head for each head.
GROUPED_QUERY_PARAMETERS = 30e9
# Adapters are 0.1 to 1 % of the weights (arXiv 2106.09685; rank 16 on every matrix of a 7B is 0.6 %). The larger
# counts.
ADAPTER_RATIO = 0.01
# 4 bits and 0.127 bit of doubly quantised scales for each weight (arXiv 2305.14314).
NF4_BITS = 4.127
# 4 bits and a 16-bit scale and zero for each 128 weights, and some layers kept wider (AWQ, GPTQ, GGUF Q4 files: 4.3
# to 4.8).
INT4_BITS = 4.5


def find_model(text: str) -> Model:
    """Return the shape of that name, or a generic transformer for a parameter count such as 350M, 7B or 1.5T.

    Raises: PlanError naming what is allowed.
    """
    model = tables.model_by_name(text)
    if model is not None:
        return model
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        names = ", ".join(row.key for row in tables.models())
        raise PlanError(f"plan: --model {text!r} is not known; use a parameter count such as 7B, or one of {names}.")
    parameters = float(match[1]) * _SCALE[match[2].lower()]
    if not MIN_PARAMETERS <= parameters <= MAX_PARAMETERS:
        raise PlanError(f"plan: --model {text!r} is out of range; use 1M to 10T parameters.")
    return generic(parameters, text.strip().upper())


def find_card(text: str) -> Card:
    """Return the card of that name. Raises: PlanError naming the cards there are."""
    card = tables.card_by_name(text)
    if card is None:
        names = ", ".join(row.key for row in tables.cards())
        raise PlanError(f"plan: --card {text!r} is not known; use one of {names}.")
    return card


def generic(parameters: float, name: str) -> Model:
    """Return a decoder of that size with usual proportions.

    12 * layers * hidden^2 weights in the blocks (Kaplan et al., arXiv 2001.08361), hidden = 128 * layers, rounded so
    that 1, 2, 4 and 8 divide the heads.
    """
    head_dim = 128 if parameters >= 3e9 else 64
    step = 8 * head_dim
    width = WIDTH_OVER_DEPTH * (parameters / (12 * WIDTH_OVER_DEPTH**2)) ** (1 / 3)
    hidden = max(1, round(width / step)) * step
    layers = max(1, round(parameters / (12 * hidden**2)))
    heads = hidden // head_dim
    return Model(
        key=name.lower(),
        name=f"{name} (generic shape)",
        kind="decoder",
        parameters=parameters,
        active_parameters=parameters,
        source="generic shape from the parameter count",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=8 if parameters >= GROUPED_QUERY_PARAMETERS else heads,
        head_dim=head_dim,
        intermediate=4 * hidden,
        vocabulary=32000,
        sequence=2048,
        gated=False,
    )


def embedding_parameters(model: Model) -> float:
    """Return the weights of input and output embedding, at most a third of the model (a generic shape may be tiny)."""
    count = model.vocabulary * model.hidden * (1 if model.tied else 2)
    return min(count, model.parameters / 3)


def expert_parameters(model: Model) -> float:
    """Return the weights that lie in experts, 0 for a dense model."""
    matrices = 3 if model.gated else 2
    return float(model.layers * model.experts * matrices * model.hidden * model.intermediate)


def trainable_parameters(model: Model, method: Method) -> float:
    """Return how many weights change: all, or the adapters."""
    return model.parameters if method is Method.FULL else ADAPTER_RATIO * model.parameters


def element_bytes(precision: Precision) -> int:
    """Return bytes of one activation or gradient on the wire: quantised models still compute in 16 bit."""
    return 4 if precision is Precision.FP32 else 2


def stored_bytes(model: Model, parameters: float, precision: Precision, method: Method) -> float:
    """Return what the frozen or served weights take. Quantisation leaves the embeddings in 16 bit.

    Args:
        parameters: how many of the model's weights; the embeddings' share goes with them.
    """
    if method is Method.QLORA:
        bits = NF4_BITS
    elif precision is Precision.INT4:
        bits = INT4_BITS
    elif precision in (Precision.INT8, Precision.FP8):
        bits = 8.0
    else:
        return parameters * element_bytes(precision)
    embedded = embedding_parameters(model) / model.parameters
    return parameters * (embedded * 2 + (1 - embedded) * bits / 8)


def forward_flops(model: Model, tokens: int) -> float:
    """Return the FLOPs of one forward pass over one sample of so many tokens.

    2 for each active weight and token, and attention: 4 * layers * width * tokens^2, half of it where tokens see only
    what stands before them (PaLM, arXiv 2204.02311, appendix B).
    """
    if model.kind == "image":
        return model.forward_flops
    attention = 4.0 * model.layers * model.heads * model.head_dim * tokens * tokens
    return 2 * model.active_parameters * tokens + attention * (0.5 if model.kind == "decoder" else 1.0)


def kv_bytes_per_token(model: Model) -> float:
    """Return keys and values of one token in 16 bit: 2 * layers * kv_heads * head_dim * 2 bytes."""
    return 2.0 * model.layers * model.kv_heads * model.head_dim * 2
