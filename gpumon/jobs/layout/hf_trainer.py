"""Flags of Hugging Face's Trainer, of programs built on it (axolotl, LLaMA-Factory), and of Lightning's CLI."""

from __future__ import annotations

import re

from gpumon.jobs.layout.command import Command, number, size
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout

_MARKS = ("per-device-train-batch-size", "dataloader-num-workers", "ddp-backend", "gradient-accumulation-steps")
_LIGHTNING = re.compile(r"(?P<name>ddp|fsdp|deepspeed)(?:_stage_(?P<stage>[123]))?(?P<offload>_offload)?(?:_.*)?")
BACKENDS = ("nccl", "gloo", "mpi")


def read(command: Command) -> Said | None:
    """Return what the Trainer's flags say, None where there are none of them."""
    options = command.options
    strategy = _LIGHTNING.fullmatch(options.get("trainer.strategy", options.get("strategy", "")))
    backend = options.get("ddp-backend", options.get("dist-backend", options.get("backend", ""))).lower()
    workers = number(options.get("dataloader-num-workers", options.get("num-workers")))
    trainer = any(mark in options for mark in _MARKS)
    if not trainer and strategy is None and workers < 0 and backend not in BACKENDS:
        return None
    asked, stage, offload = "", -1, False
    if strategy:
        stage = number(strategy["stage"])
        offload = bool(strategy["offload"])
        asked = f"zero{stage}" if stage > 0 else strategy["name"] if strategy["name"] != "deepspeed" else ""
    elif options.get("fsdp"):
        asked, offload = ("fsdp", "offload" in options["fsdp"]) if "shard" in options["fsdp"] else ("", False)
    elif trainer and "deepspeed" not in options:
        # Under a launcher the Trainer wraps the model in DDP unless told otherwise; whoever knows the launcher decides.
        asked = "ddp"
    return Said(
        Layout(
            framework="huggingface" if trainer else "",
            asked=asked,
            zero_stage=stage,
            offload=offload,
            micro_batch=size(options, "per-device-train-batch-size"),
            accumulation=size(options, "gradient-accumulation-steps"),
            loader_workers=workers,
            backend=backend if backend in BACKENDS else "",
        )
    )
