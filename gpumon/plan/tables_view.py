"""The tables of an answer as rows of text, shared by the terminal and the page; and its notes."""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.plan.answer import Option, Plan
from gpumon.plan.bandwidth import peer_latency, way
from gpumon.plan.memory import state_bytes
from gpumon.plan.request import Method, Precision, Request
from gpumon.plan.timing import COMPUTE_SHARE, MEMORY_SHARE
from gpumon.plan.traffic import Transfer
from gpumon.plan.units import number, percent, rate, seconds, size, span
from gpumon.plan.wording import Language, layout_name, path_name


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. The first column is text, the others are figures. marked: the row that is advised."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None


def title(request: Request) -> str:
    """Return what was asked, in one line."""
    method = {Method.FULL: "full training", Method.LORA: "LoRA", Method.QLORA: "QLoRA", Method.INFERENCE: "inference"}
    return (
        f"{request.model.name}, {method[request.method]}, {request.precision.value}, "
        f"on {request.cards}x {request.card.name}"
    )


def tables(answer: Plan, language: Language) -> tuple[Table, ...]:
    """Return the tables in reading order."""
    return (_scaling(answer, language), _layouts(answer, language), _memory(answer), _links(answer))


def _scaling(answer: Plan, language: Language) -> Table:
    inference = not answer.request.trains
    head = ["cards", "layout", "fullest card", "fits", f"{answer.unit}/s", "efficiency", "range", "waits for links"]
    if inference:
        head.append("one user tok/s")
    if answer.request.price_per_card_hour is not None:
        head.append("cost of " + ("1,000 images" if answer.unit == "images" else "1M tokens"))
    rows = []
    marked = None
    for index, point in enumerate(answer.points):
        if point.layout.cards == answer.recommended_cards:
            marked = index
        rows.append(_scaling_row(answer, point, language))
    return Table(f"What 1 to {answer.request.cards} cards give", tuple(head), tuple(rows), marked)


def _scaling_row(answer: Plan, point: Option, language: Language) -> tuple[str, ...]:
    row = [
        str(point.layout.cards),
        layout_name(point.layout, answer.request.trains, language),
        size(point.memory.total_bytes),
        _fit_word(point),
    ]
    if point.memory.fits:
        row += [
            number(point.throughput.typical),
            f"{point.efficiency.typical:.2f}",
            span(point.efficiency),
            percent(point.link_ratio),
        ]
    else:
        row += ["-", "-", "-", "-"]
    if point.lone_tokens_per_second is not None:
        row.append(number(point.lone_tokens_per_second) if point.memory.fits else "-")
    if point.cost is not None:
        row.append(number(point.cost.typical) if point.memory.fits else "-")
    return tuple(row)


def _layouts(answer: Plan, language: Language) -> Table:
    request = answer.request
    head = ["layout", "fullest card", "fits", f"{answer.unit}/s", "efficiency", "waits for links", "sent a card"]
    per = "optimizer step" if request.trains else "token of each request"
    ordered = sorted(answer.options, key=lambda option: (not option.memory.fits, -option.throughput.typical))
    rows = []
    marked = None
    for index, option in enumerate(ordered):
        if option.layout == answer.chosen.layout:
            marked = index
        fits = option.memory.fits
        rows.append(
            (
                layout_name(option.layout, request.trains, language),
                size(option.memory.total_bytes),
                _fit_word(option),
                number(option.throughput.typical) if fits else f"({number(option.throughput.typical)})",
                f"{option.efficiency.typical:.2f}" if fits else f"({option.efficiency.typical:.2f})",
                percent(option.link_ratio),
                size(sum(transfer.sent_bytes for transfer in option.traffic)),
            )
        )
    name = f"Layouts on {request.cards} card{'' if request.cards == 1 else 's'} (sent: for each {per})"
    return Table(name, tuple(head), tuple(rows), marked)


def _memory(answer: Plan) -> Table:
    memory = answer.chosen.memory
    parts = (
        ("weights", memory.weights_bytes),
        ("gradients", memory.gradients_bytes),
        ("optimizer state", memory.optimizer_bytes),
        ("activations", memory.activations_bytes),
        ("KV cache", memory.kv_cache_bytes),
        ("gathered blocks and buckets", memory.buffers_bytes),
        ("CUDA context and libraries", memory.runtime_bytes),
        ("in all", memory.total_bytes),
        ("the card has", memory.capacity_bytes),
        ("headroom", memory.capacity_bytes - memory.total_bytes),
        ("and in host memory", memory.host_bytes),
    )
    keep = ("in all", "the card has", "headroom")
    rows = tuple(
        (name, size(value), percent(value / memory.capacity_bytes)) for name, value in parts if value or name in keep
    )
    return Table("Memory of the fullest card", ("part", "bytes", "of the card"), rows)


def _links(answer: Plan) -> Table:
    request, chosen = answer.request, answer.chosen
    rows = [
        _transfer_row(request, transfer, "optimizer step" if request.trains else "token") for transfer in chosen.traffic
    ]
    rows += [_transfer_row(request, transfer, "prompt") for transfer in chosen.prompt_traffic]
    if not rows:
        rows = [("nothing", "0", "0", "0", "", "")]
    head = ("what", "sent", "received", "messages", "for each", "way")
    return Table("Bytes over the links of the busiest card", head, tuple(rows))


def _transfer_row(request: Request, transfer: Transfer, per: str) -> tuple[str, ...]:
    path = path_name("host_copy" if transfer.way == "host" else way(request, transfer.members), "en")
    return (transfer.name, size(transfer.sent_bytes), size(transfer.received_bytes), f"{transfer.calls:,}", per, path)


def notes(answer: Plan) -> tuple[str, ...]:
    """Return what the figures rest on, one sentence each."""
    return (_memory_note(answer), *_state_note(answer), *_bandwidth_notes(answer), _speed_note(answer))


def _memory_note(answer: Plan) -> str:
    request = answer.request
    one = size(request.card.memory_bytes)
    return (
        f"Memory does not add up: {request.cards} cards are {request.cards} times {one}, not one card of "
        f"{size(request.cards * request.card.memory_bytes)}. Each card holds its own context, activations and buffers, "
        "and with DDP or replicas a whole copy of the model; what a layout cuts up instead, it sends over the links."
    )


def _state_note(answer: Plan) -> tuple[str, ...]:
    request = answer.request
    if not request.trains:
        return (
            f"Weights of one copy: {size(answer.state_bytes)}. In flight are {request.concurrency} requests of up to "
            f"{request.context:,} tokens, {request.output_tokens:,} of them generated, on however many cards: "
            "efficiency compares with one card of enough memory that serves all of them.",
        )
    each = state_bytes(request.precision, request.optimizer)
    text = f"One whole copy of weights, gradients and optimizer state: {size(answer.state_bytes)}"
    if request.method is Method.FULL:
        text += f" ({each.total:g} bytes a parameter"
        if request.precision is not Precision.FP32:
            more = answer.state_bytes + 2 * request.model.parameters
            text += f"; {each.total + 2:g} where gradients are kept in 32 bit: {size(more)}"
        text += ")"
    samples = request.batch * request.accumulation * request.cards
    return (
        text + ", before activations.",
        f"One optimizer step is {samples:,} samples: batch {request.batch} x {request.accumulation} micro-batches x "
        f"{request.cards} cards, the same for every layout.",
    )


def _bandwidth_notes(answer: Plan) -> tuple[str, ...]:
    request = answer.request
    if request.cards == 1:
        return ()
    value = answer.rate.bytes_per_second
    path = path_name(way(request, request.cards), "en")
    latency = seconds(peer_latency(request, request.cards))
    if answer.rate.origin != "typical":
        return (
            f"Bandwidth {answer.rate.origin}: {rate(value.typical)} a card and direction over {path}; "
            f"{latency} a small message.",
        )
    note = (
        f"Bandwidth typical for {request.cards} cards over {path}: {rate(value.typical)} a card and direction "
        f"({rate(value.low)} to {rate(value.high)}); {latency} a small message. From: {'; '.join(answer.rate.sources)}."
    )
    if path.startswith("host"):
        sent = sum(transfer.sent_bytes for transfer in answer.chosen.traffic if transfer.way == "peers")
        stops = size(2 * sent * request.cards)
        note += f" Without P2P each byte also stops in host memory: {stops} written and read there."
    return (note,)


def _speed_note(answer: Plan) -> str:
    request = answer.request
    if request.one_card_rate is not None:
        return "Computing time from the given one-card rate. The typical value lets nothing overlap."
    text = (
        f"Computing at {span(COMPUTE_SHARE)} (typically {COMPUTE_SHARE.typical}) of the card's dense tensor rate of "
        f"{number(request.card.tensor_flops / 1e12)} TFLOP/s"
    )
    if not request.trains:
        text += f", reading memory at {span(MEMORY_SHARE)} ({MEMORY_SHARE.typical}) of its bandwidth"
    return text + ". The typical value lets nothing overlap, the best case everything it can."


def _fit_word(option: Option) -> str:
    if option.memory.tight:
        return "tight"
    return "yes" if option.memory.fits else "no"
