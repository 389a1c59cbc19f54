"""The identity of a workload: the same program with the same settings, however many cards it gets.

A hash under the installation's salt, so that a history file tells nothing about command lines to whoever copies it.
"""

from __future__ import annotations

import hashlib
import re
from itertools import takewhile

from gpumon.jobs.layout.command import Command, base_name

# Options that change from run to run or with the number of cards, or how the same is computed: what is changed on
# advice must not make it another workload, or nobody could say whether it came true.
_RUN_OPTIONS = re.compile(
    r"(?:.*-)?(?:port|host|addr|address|rank|seed|output|out|log|logs|logging|save|run|name|id|dir|resume|checkpoint|"
    r"token|key|secret|password|nproc|nnodes|nodes|devices|device|gpus|gpu|world|processes|replicas|"
    r"zero|deepspeed|fsdp|ddp|workers|prefetch|pin|accum|accumulate|accumulation)(?:-.*)?"
    r"|tp|pp|dp|ep|tp-size|pp-size|dp-size|ep-size|.*-parallel-size|tensor-split|ts|verbose|v|quiet|q|debug"
)
# What is computed, although the option speaks of a name, an id, or a device.
_CONTENT_OPTIONS = re.compile(r"(?:.*-)?(?:model|dataset)-(?:name|id)(?:-or-path)?|(?!accum).*batch.*")
_MASKED = "*"  # what a recording writes for text that a tenant chose
# Scripts that lie here were unpacked for this run alone.
_PASSING_FOLDERS = ("/tmp/", "/var/", "/run/", "/dev/")


def identity(command: Command, folder: str, tenant: str, salt: str) -> str:
    """Return 16 hexadecimal digits, "" for inline code, notebooks and renamed processes.

    Args:
        command: what runs in the end, below the launchers.
        folder: that it was started in; "" where it may not be read.
    """
    name = _script(command.script, folder) or command.module or command.program
    if not name or command.code or name in ("python", "ipykernel_launcher", "ipykernel"):
        return ""
    settings = sorted(
        f"{option}={value}"
        for option, value in command.options.items()
        if _CONTENT_OPTIONS.fullmatch(option) or not _RUN_OPTIONS.fullmatch(option)
    )
    leading = tuple(takewhile(lambda word: not word.startswith("-"), command.arguments[:3]))
    if _MASKED in (base_name(name), *leading) or any(setting.endswith(f"={_MASKED}") for setting in settings):
        return ""  # a recording without its texts: what looks alike there may be anything
    text = "\0".join([salt, tenant, name, *leading, *settings])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _script(path: str, folder: str) -> str:
    """Return a script with the folder it lies in, as far as that is known: two people's train.py are two programs."""
    if not path.startswith("/") and folder and path:
        path = f"{folder}/{path.removeprefix('./')}"
    return base_name(path) if path.startswith(_PASSING_FOLDERS) else path.removeprefix("./")
