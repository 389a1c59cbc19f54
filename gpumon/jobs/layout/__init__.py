"""How a job was asked to run, from command lines, allow-listed variables and config files. Unknown is fine.

One file a family of launchers or frameworks. `of_command`, `environment.read` and `configs.read` read one source;
`finished` adds what follows from the whole job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpumon.jobs.layout import (
    accelerate,
    axolotl,
    configs,
    deepspeed,
    environment,
    hf_trainer,
    llamacpp,
    llamafactory,
    megatron,
    mpi,
    sglang,
    tensorrt_llm,
    torchrun,
    vllm,
    zero_flags,
)
from gpumon.jobs.layout.command import Command
from gpumon.jobs.layout.parts import Said, both
from gpumon.model.job import Layout

__all__ = ["FRAMEWORKS", "LAUNCHERS", "configs", "environment", "finished", "of_command"]

Parser = Callable[[Command], "Said | None"]

# A launcher's command line ends with another command, which is read in turn.
LAUNCHERS: tuple[Parser, ...] = (torchrun.read, accelerate.read, deepspeed.read, mpi.read)
# A program and its flags; several may apply (LLaMA-Factory with the Trainer's flags).
FRAMEWORKS: tuple[Parser, ...] = (
    vllm.read,
    sglang.read,
    tensorrt_llm.read,
    llamacpp.read,
    axolotl.read,
    llamafactory.read,
    megatron.read,
    zero_flags.read,
    hf_trainer.read,
)
_DEEPEST = 4  # mpirun starts accelerate starts deepspeed starts a script


def of_command(command: Command) -> Said:
    """Return what a command line says, the outermost launcher first; `inner` is what runs in the end."""
    said = Said()
    current = command
    for _ in range(_DEEPEST):
        launched = next((found for parser in LAUNCHERS if (found := parser(current)) is not None), None)
        if launched is None:
            break
        # Of nested launchers the inner one counts the ranks, and the outer one is what was asked to launch.
        launcher = said.layout.launcher or launched.layout.launcher
        said = both(launched, said)
        said = replace(said, layout=replace(said.layout, launcher=launcher))
        current = launched.inner or Command()
    for parser in FRAMEWORKS:
        found = parser(current)
        said = both(said, found) if found is not None else said
    return replace(said, inner=current)


def finished(layout: Layout, *, cards: int, processes: int, thread_names: str) -> Layout:
    """Return the layout with what follows from the job as a whole.

    Args:
        cards: how many cards its processes use, together.
        processes: how many GPU processes it has on this node.
        thread_names: of its processes, see Process.thread_names.
    """
    world_size = layout.world_size
    asked = layout.asked
    if asked == "ddp" and layout.framework == "huggingface" and not _ddp_is_certain(layout):
        asked = ""
    if layout.framework == "llama.cpp" and asked == "pp" and cards == 1:
        asked = "single"
    if not asked and processes == 1 and cards == 1 and world_size <= 1 and "environ" in layout.privileges:
        asked = "single"
    split = max(1, layout.tensor_parallel) * max(1, layout.pipeline_parallel)
    known = layout.tensor_parallel > 0 and layout.pipeline_parallel > 0
    data = layout.data_parallel or (world_size // split if known and world_size >= split else 0)
    backend = layout.backend or _backend(thread_names)
    framework = layout.framework or ("pytorch" if layout.launcher in ("torchrun", "accelerate", "deepspeed") else "")
    return replace(layout, asked=asked, data_parallel=data, backend=backend, framework=framework)


def _ddp_is_certain(layout: Layout) -> bool:
    """The Trainer wraps in DDP under torchrun; accelerate's config may say DeepSpeed, and alone it may be one card."""
    if layout.launcher == "accelerate":
        return bool(layout.privileges & {"environ"}) and layout.zero_stage < 0 and layout.world_size > 1
    return layout.launcher in ("torchrun", "deepspeed", "mpirun", "srun") and layout.world_size != 1


def _backend(thread_names: str) -> str:
    """PyTorch names the watchdog thread of each NCCL group; gloo's threads alone mean that there is no NCCL."""
    if "pt_nccl" in thread_names or "NCCL" in thread_names:
        return "nccl"
    return "gloo" if "pt_gloo" in thread_names else ""
