"""`gpumon plan`: before renting. Does it fit, what crosses the links, what will N cards give, which layout."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

import msgspec

from gpumon.cli.arguments import Subparsers
from gpumon.plan.answer import Plan, plan
from gpumon.plan.html_view import page
from gpumon.plan.json_view import document
from gpumon.plan.request import (
    DEFAULT_NETWORK_BYTES_PER_SECOND,
    Method,
    Optimizer,
    PlanError,
    Precision,
    Request,
    Strategy,
)
from gpumon.plan.shapes import find_card, find_model
from gpumon.plan.text_view import text
from gpumon.plan.wording import Language

FITS, DOES_NOT_FIT, USAGE = 0, 1, 2

EXAMPLES = """examples:
  gpumon plan --model 70B --card rtx5090 --gpus 8
  gpumon plan --model llama-3-8b --card rtx4090 --gpus 4 --method lora --batch 4 --sequence 2048
  gpumon plan --model qwen2.5-32b --card rtx4090 --gpus 8 --method inference --strategy tp --precision int4
  gpumon plan --model bert-large --card rtx4090 --gpus 2 --strategy ddp --batch 28 --precision fp16 \\
      --one-card-rate 93.6 --bandwidth 6.3GB/s

Models are names (llama-3-8b, qwen2.5-7b, mixtral-8x7b, gpt2-xl, sdxl, ...) or a parameter count (350M, 7B, 1.5T).
Exit codes: 0 it fits, 1 it does not fit, 2 wrong usage."""


@dataclass(frozen=True, slots=True)
class _LearnedRate:
    """What a set of cards has shown: bytes per second of each card in one direction."""

    gpus: tuple[int, ...]
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class _Topology:
    """The part of `gpumon topo`'s JSON that matters here."""

    learned_rates: tuple[_LearnedRate, ...]


_RATE_UNITS = {"gb/s": 1e9, "mb/s": 1e6, "gbit/s": 1e9 / 8, "gib/s": 2**30}
_Choice = TypeVar("_Choice", bound=Enum)


def add_parser(commands: Subparsers) -> None:
    """Add the command. Values stay text here: `run` reads them, so that each mistake is one sentence."""
    parser = commands.add_parser(
        "plan",
        help="before renting: does it fit, what will N cards give, which layout",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    what = parser.add_argument_group("what runs where")
    what.add_argument("--model", metavar="NAME|SIZE", help="a model, or a parameter count such as 70B")
    what.add_argument("--card", metavar="NAME", help="a card, for example rtx5090 or h100-sxm")
    what.add_argument("--gpus", metavar="N", help="cards, 1 to 1024; 8 to a node")
    what.add_argument("--method", default="full", metavar="M", help="full (default), lora, qlora or inference")
    what.add_argument(
        "--strategy", metavar="S", help="ddp, tp, pp, fsdp, zero1, zero2, zero3, offload or ep; default: the best"
    )
    what.add_argument("--group", metavar="N", help="cards that hold one copy of the model (tp, pp); default: all")
    what.add_argument("--precision", metavar="P", help="bf16 (default), fp16, fp32; inference also fp8, int8, int4")
    training = parser.add_argument_group("training")
    training.add_argument("--batch", default="1", metavar="N", help="samples a card and micro-batch (default 1)")
    training.add_argument("--sequence", metavar="N", help="tokens a sample; default: the model's")
    training.add_argument("--accumulation", default="1", metavar="N", help="micro-batches a step (default 1)")
    training.add_argument("--recompute", action="store_true", help="recompute activations in the backward pass")
    training.add_argument("--optimizer", default="adam", metavar="O", help="adam (default) or adam8bit")
    serving = parser.add_argument_group("inference")
    serving.add_argument("--context", default="2048", metavar="N", help="tokens of one request (default 2048)")
    serving.add_argument("--output-tokens", default="256", metavar="N", help="of these generated (default 256)")
    serving.add_argument("--concurrency", default="32", metavar="N", help="requests in flight in all (default 32)")
    node = parser.add_argument_group("the node")
    node.add_argument("--p2p", metavar="on|off", help="cards reach each other over PCIe; default: the card's")
    node.add_argument("--nvlink", metavar="on|off", help="default: on where built in, off where it is a bridge")
    node.add_argument("--pcie", metavar="GENxLANES", help="the slot, for example 4x8; default: the card's own")
    node.add_argument(
        "--bandwidth",
        metavar="RATE",
        help="measured all-reduce bus bandwidth, for example 6.5GB/s, or by cards: 2=6.5GB/s,8=2GB/s",
    )
    node.add_argument(
        "--learned",
        metavar="FILE",
        help="rates this node has shown: the output of `gpumon topo --bandwidth --format json`",
    )
    node.add_argument("--network", metavar="RATE", help="between nodes, each node (default 25Gbit/s)")
    node.add_argument(
        "--one-card-rate", metavar="X", help="measured on one card: samples/s, or output tokens/s (inference)"
    )
    node.add_argument("--price", metavar="X", help="price of one card for one hour, in any currency")
    output = parser.add_argument_group("output")
    output.add_argument("--format", default="text", metavar="F", help="text (default), json or html")
    output.add_argument("--lang", default="en", metavar="L", help="language of verdict and advice: en (default) or zh")
    output.add_argument("--out", metavar="FILE", help="write there instead of standard output")


def run(args: argparse.Namespace) -> int:
    """Print the answer; 1 when it does not fit, 2 when the question is wrong."""
    try:
        form = _word("format", args.format, ("text", "json", "html"))
        language: Language = "zh" if _word("lang", args.lang, ("en", "zh")) == "zh" else "en"
        answer = plan(_request(args))
        _write(_rendered(answer, form, language), args.out)
    except PlanError as error:
        print(f"gpumon: {error}", file=sys.stderr)
        return USAGE
    return FITS if answer.fits else DOES_NOT_FIT


def _rendered(answer: Plan, form: str, language: Language) -> str:
    if form == "json":
        return json.dumps(document(answer), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return page(answer, language) if form == "html" else text(answer, language)


def _write(content: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(content)
        return
    try:
        Path(out).write_text(content, "utf-8")
    except OSError as error:
        raise PlanError(
            f"plan: --out {out!r} cannot be written ({error.strerror}); use a file in a folder of yours."
        ) from None


def _request(args: argparse.Namespace) -> Request:
    for option in ("model", "card", "gpus"):
        if getattr(args, option) is None:
            raise PlanError(
                f"plan: --{option} is missing; for example: gpumon plan --model 70B --card rtx5090 --gpus 8."
            )
    model, card = find_model(args.model), find_card(args.card)
    generation, lanes = _slot(args.pcie, card.pcie_generation, card.pcie_lanes)
    method = _choice("method", args.method, Method)
    bf16 = card.architecture not in ("volta", "turing")
    precision = args.precision or ("bf16" if bf16 else "fp16")
    return Request(
        model=model,
        card=card,
        cards=_whole("gpus", args.gpus),
        method=method,
        strategy=None if args.strategy is None else _choice("strategy", args.strategy, Strategy),
        group=None if args.group is None else _whole("group", args.group),
        precision=_choice("precision", precision, Precision),
        batch=_whole("batch", args.batch),
        sequence=model.sequence if args.sequence is None else _whole("sequence", args.sequence),
        accumulation=_whole("accumulation", args.accumulation),
        recompute=args.recompute,
        optimizer=_choice("optimizer", args.optimizer, Optimizer),
        context=_whole("context", args.context),
        output_tokens=_whole("output-tokens", args.output_tokens),
        concurrency=_whole("concurrency", args.concurrency),
        p2p=_switch("p2p", args.p2p, card.p2p),
        nvlink=_switch("nvlink", args.nvlink, card.nvlink_kind == "fabric"),
        pcie_generation=generation,
        pcie_lanes=lanes,
        bandwidth=_learned(args.learned) if args.bandwidth is None else _bandwidths(args.bandwidth),
        learned=args.bandwidth is None and args.learned is not None,
        network_bytes_per_second=(
            DEFAULT_NETWORK_BYTES_PER_SECOND if args.network is None else _rate("network", args.network)
        ),
        one_card_rate=None if args.one_card_rate is None else _number("one-card-rate", args.one_card_rate),
        price_per_card_hour=None if args.price is None else _number("price", args.price),
    )


def _whole(option: str, text_: str) -> int:
    try:
        return int(text_)
    except ValueError:
        raise PlanError(f"plan: --{option} {text_!r} is not a whole number; use 1 or more.") from None


def _number(option: str, text_: str) -> float:
    try:
        return float(text_)
    except ValueError:
        raise PlanError(f"plan: --{option} {text_!r} is not a number; use a number above 0.") from None


def _rate(option: str, text_: str) -> float:
    lower = text_.strip().lower()
    unit = next((unit for unit in _RATE_UNITS if lower.endswith(unit)), None)
    try:
        if unit is None:
            raise ValueError
        return float(lower.removesuffix(unit)) * _RATE_UNITS[unit]
    except ValueError:
        raise PlanError(f"plan: --{option} {text_!r} is not a rate; use a number and GB/s, MB/s or Gbit/s.") from None


def _bandwidths(text_: str) -> tuple[tuple[int, float], ...]:
    if "=" not in text_:
        return ((1, _rate("bandwidth", text_)),)
    pairs = []
    for part in text_.split(","):
        count, _, rate = part.partition("=")
        pairs.append((_whole("bandwidth", count.strip()), _rate("bandwidth", rate)))
    return tuple(pairs)


def _learned(file: str | None) -> tuple[tuple[int, float], ...]:
    """Return the best rate learned for each number of cards: a plan would use that set."""
    if file is None:
        return ()
    try:
        rows = msgspec.json.decode(Path(file).read_bytes(), type=_Topology).learned_rates
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(
            f"plan: --learned {file!r} cannot be read ({error}); "
            "use what `gpumon topo --bandwidth --format json` printed."
        ) from None
    if not rows:
        raise PlanError(f"plan: --learned {file!r} holds no rates yet; use --bandwidth with a measured rate.")
    best: dict[int, float] = {}
    for row in rows:
        best[len(row.gpus)] = max(best.get(len(row.gpus), 0.0), row.bytes_per_second)
    return tuple(sorted(best.items()))


def _slot(text_: str | None, generation: int, lanes: int) -> tuple[int, int]:
    """Return generation and lanes of the link: the narrower of card and slot."""
    if text_ is None:
        return generation, lanes
    first, _, second = text_.lower().removeprefix("gen").replace("x", " ").partition(" ")
    if not first.isdecimal() or not second.strip().isdecimal() or not 1 <= int(first) <= 6:
        raise PlanError(f"plan: --pcie {text_!r} is not a slot; use generation x lanes, 1x1 to 6x16, for example 4x8.")
    return min(int(first), generation), min(int(second), lanes)


def _switch(option: str, text_: str | None, default: bool) -> bool:
    return default if text_ is None else _word(option, text_, ("on", "off")) == "on"


def _word(option: str, text_: str, allowed: tuple[str, ...]) -> str:
    if text_ not in allowed:
        raise PlanError(f"plan: --{option} {text_!r} is not known; use {', '.join(allowed[:-1])} or {allowed[-1]}.")
    return text_


def _choice(option: str, text_: str, kind: type[_Choice]) -> _Choice:
    return kind(_word(option, text_.lower(), tuple(str(each.value) for each in kind)))
