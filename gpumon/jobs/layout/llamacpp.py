"""llama.cpp's programs and Ollama, which runs them: layers split over cards, or left on the CPU."""

from __future__ import annotations

from collections.abc import Mapping

from gpumon.jobs.layout.command import Command, number
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout

_PROGRAMS = frozenset(
    "llama-server llama-cli llama-bench llama-run llama-perplexity llama-batched-bench llama-parallel "
    "llama-speculative llama-mtmd-cli llama-finetune rpc-server".split()
)
_SPLIT = {"layer": "pp", "row": "tp", "none": "single"}


def read(command: Command) -> Said | None:
    """Return what a llama.cpp command line says, None for another program.

    Without -sm the split is by layers; over how many cards is not on the command line, so a job of one card is made
    "single" by whoever knows its cards.
    """
    if command.program == "ollama":
        return Said(Layout(framework="llama.cpp", launcher="ollama", asked="pp"))
    if command.program not in _PROGRAMS:
        return None
    options = command.options
    split = options.get("sm", options.get("split-mode", "layer"))
    return Said(
        Layout(
            framework="llama.cpp",
            asked="offload" if _offloads(options) else _SPLIT.get(split, ""),
            offload=_offloads(options),
        )
    )


def _offloads(options: Mapping[str, str]) -> bool:
    layers = next((options[name] for name in ("ngl", "gpu-layers", "n-gpu-layers") if name in options), "")
    experts = next((options[name] for name in ("ncmoe", "n-cpu-moe") if name in options), "")
    placed = next((options[name] for name in ("ot", "override-tensor") if name in options), "")
    return number(layers) == 0 or number(experts) > 0 or "cmoe" in options or "cpu-moe" in options or "CPU" in placed
