"""An answer as JSON: the same figures with full precision, in base units, and the sentences in both languages."""

from __future__ import annotations

import math
from typing import TypeAlias

from gpumon.plan.answer import Option, Plan
from gpumon.plan.memory import Memory
from gpumon.plan.request import Estimate
from gpumon.plan.signals import signals
from gpumon.plan.tables_view import notes
from gpumon.plan.traffic import Transfer
from gpumon.plan.verdict import remedy_texts, signal_text, verdict

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SCHEMA = 1


def document(answer: Plan) -> dict[str, Json]:
    """Return the answer as values of JSON; what does not exist is null."""
    english, chinese = verdict(answer, "en"), verdict(answer, "zh")
    remedies, chinese_remedies = remedy_texts(answer, "en"), remedy_texts(answer, "zh")
    return {
        "schema": SCHEMA,
        "request": _request(answer),
        "fits": answer.fits,
        "recommended_gpus": answer.recommended_cards,
        "state_bytes": answer.state_bytes,
        "unit": answer.unit,
        "verdict": [
            {"subject": one.subject, "key": one.key, "level": one.level, "text": one.text, "text_zh": other.text}
            for one, other in zip(english, chinese, strict=True)
        ],
        "remedies": [
            {"key": remedy.key, "text": text, "text_zh": other, "option": _option(remedy.option)}
            for (remedy, text), (_, other) in zip(remedies, chinese_remedies, strict=True)
        ],
        "signals": [
            {
                "key": signal.key,
                "applies": signal.applies,
                "text": signal_text(answer, signal, "en"),
                "text_zh": signal_text(answer, signal, "zh"),
            }
            for signal in signals(answer)
        ],
        "bandwidth": {
            "bytes_per_second": _estimate(answer.rate.bytes_per_second),
            "origin": answer.rate.origin,
            "sources": list(answer.rate.sources),
        },
        "chosen": _option(answer.chosen),
        "scaling": [_option(point) for point in answer.points],
        "layouts": [_option(option) for option in answer.options],
        "notes": list(notes(answer)),
    }


def _request(answer: Plan) -> dict[str, Json]:
    request = answer.request
    return {
        "model": request.model.key,
        "parameters": request.model.parameters,
        "card": request.card.key,
        "gpus": request.cards,
        "method": request.method.value,
        "strategy": None if request.strategy is None else request.strategy.value,
        "precision": request.precision.value,
        "optimizer": request.optimizer.value,
        "batch": request.batch,
        "sequence": request.sequence,
        "accumulation": request.accumulation,
        "recompute": request.recompute,
        "context": request.context,
        "output_tokens": request.output_tokens,
        "concurrency": request.concurrency,
        "p2p": request.p2p,
        "nvlink": request.nvlink,
    }


def _option(option: Option) -> dict[str, Json]:
    layout = option.layout
    return {
        "strategy": layout.strategy.value,
        "gpus": layout.cards,
        "group": layout.group,
        "copies": layout.copies,
        "fits": option.memory.fits,
        "memory": _memory(option.memory),
        "throughput_per_second": _estimate(option.throughput),
        "efficiency_ratio": _estimate(option.efficiency),
        "step_seconds": _estimate(option.step_seconds),
        "link_ratio": option.link_ratio,
        "lone_tokens_per_second": option.lone_tokens_per_second,
        "cost": None if option.cost is None else _estimate(option.cost),
        "traffic": [_transfer(transfer) for transfer in option.traffic],
        "prompt_traffic": [_transfer(transfer) for transfer in option.prompt_traffic],
    }


def _memory(memory: Memory) -> dict[str, Json]:
    return {
        "weights_bytes": memory.weights_bytes,
        "gradients_bytes": memory.gradients_bytes,
        "optimizer_bytes": memory.optimizer_bytes,
        "activations_bytes": memory.activations_bytes,
        "kv_cache_bytes": memory.kv_cache_bytes,
        "buffers_bytes": memory.buffers_bytes,
        "runtime_bytes": memory.runtime_bytes,
        "total_bytes": memory.total_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "host_bytes": memory.host_bytes,
    }


def _transfer(transfer: Transfer) -> dict[str, Json]:
    return {
        "name": transfer.name,
        "sent_bytes": transfer.sent_bytes,
        "received_bytes": transfer.received_bytes,
        "messages": transfer.calls,
        "gpus": transfer.members,
        "way": transfer.way,
    }


def _estimate(value: Estimate) -> dict[str, Json]:
    return {"low": _finite(value.low), "typical": _finite(value.typical), "high": _finite(value.high)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
