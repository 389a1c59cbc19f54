"""What a recording keeps of command lines: launchers, flag names, plain numbers and a closed list of words.

A command line holds paths, model names and secrets of a tenant. How a job was launched (world size, parallel sizes,
backend) is in its flags and their numbers, so these stay and everything else becomes "*". A numeric value stays
hidden behind a flag whose name speaks of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpumon.model.fault import Fault
from gpumon.model.process import Process, ProcessTable

MASK = "*"
_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
_NUMBER_LIST = re.compile(r"[0-9]{1,3}(?:,[0-9]{1,3}){0,63}", re.ASCII)
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9_.\-]{0,60}", re.ASCII)
_SECRET = re.compile(r"pass|secret|token(?!s|izer)|key|credential|auth|pwd|pin\b|api", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]{0,6}", re.ASCII)

# Programs, modules and subcommands that say how a job was launched; compared with the last part of a path.
_LAUNCHERS = frozenset(
    "torchrun accelerate deepspeed mpirun mpiexec orterun srun horovodrun ray vllm sglang llama-server llama-cli "
    "llama-bench main server trtllm-serve trtllm-bench axolotl llamafactory-cli tgi text-generation-launcher "
    "torch.distributed.run torch.distributed.launch accelerate.commands.launch deepspeed.launcher.runner "
    "deepspeed.launcher.launch vllm.entrypoints.openai.api_server vllm.entrypoints.api_server sglang.launch_server "
    "axolotl.cli.train pretrain_gpt.py pretrain_bert.py pretrain_t5.py jupyter ipykernel_launcher ipykernel "
    "launch train serve start bash sh".split()
)
# Values of flags that say how the work is split.
_WORDS = frozenset(
    "true false none auto yes no on off nccl gloo mpi ddp fsdp fsdp2 full_shard shard_grad_op hybrid_shard no_shard "
    "full_shard auto_wrap offload cpu cuda nvme ray mp layer row tensor bf16 fp16 fp32 bfloat16 float16 float32 half "
    "fp8 int8 int4 awq gptq zero1 zero2 zero3 static c10d deepspeed megatron pp tp dp".split()
)
# Variables whose whole value is a number or a word by nature.
_SAFE_VARIABLES = re.compile(
    r"(?:WORLD_SIZE|RANK|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|OMP_NUM_THREADS|NCCL_[A-Z0-9_]+|"
    r"CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|SLURM_[A-Z_]*(?:ID|COUNT|NTASKS|NNODES|PROCID|GPUS))"
)


def masked(table: ProcessTable) -> ProcessTable:
    """Return the table without text that a tenant chose."""
    return replace(
        table,
        processes=tuple(_process(process) for process in table.processes),
        containers={
            key: replace(container, name="", image="", labels={}) for key, container in table.containers.items()
        },
        users={},
        configs={key: {name: _value(value) for name, value in values.items()} for key, values in table.configs.items()},
    )


def mask_command_line(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line with everything but launchers, flag names, numbers and known words replaced by "*"."""
    return tuple(_mask_words(words))


def _mask_words(words: tuple[str, ...]) -> Iterator[str]:
    secret = False
    for number, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if _FLAG.fullmatch(flag) and (len(flag) <= 3 or flag.startswith("--")):
            hidden = bool(_SECRET.search(flag))
            yield flag if not equals else f"{flag}={MASK if hidden else _value(value)}"
            secret = hidden and not equals
            continue
        yield MASK if secret else _program(word) if number < 4 else _value(word)
        secret = False


def _program(word: str) -> str:
    name = word.rpartition("/")[2]
    return name if name in _LAUNCHERS or _PYTHON.fullmatch(name) else _value(word)


def _value(word: str) -> str:
    if _NUMBER.fullmatch(word) or _NUMBER_LIST.fullmatch(word) or word.lower() in _WORDS:
        return word
    name = word.rpartition("/")[2]
    return name if name in _LAUNCHERS else MASK


def _process(process: Process) -> Process:
    cmdline = process.cmdline if isinstance(process.cmdline, Fault) else mask_command_line(process.cmdline)
    environ: Mapping[str, str] | Fault = process.environ
    if not isinstance(environ, Fault):
        environ = {key: _value(value) for key, value in environ.items() if _SAFE_VARIABLES.fullmatch(key)}
    return replace(process, cmdline=cmdline, environ=environ, comm=_program(process.comm), folder="")
