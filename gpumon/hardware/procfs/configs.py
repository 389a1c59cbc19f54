"""Configuration files named on a process's command line, reduced to a closed list of keys with plain values.

A tenant names these files, so they are opened as if by an enemy: within the process's own root, element by element,
no symbolic link followed, only regular files of at most 256 KiB on file systems whose server cannot make us wait.
Of the content only keys of KEYS are kept, and of those only numbers and single words.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from gpumon.hardware.procfs import files

LARGEST = 262144
MOST_FILES = 4  # of one process
_SUFFIXES = (".json", ".yaml", ".yml")
# Local ones. A FUSE or network mount may be the tenant's own server, which may never answer.
_FILE_SYSTEMS = frozenset("ext2 ext3 ext4 xfs btrfs f2fs zfs overlay aufs tmpfs ramfs squashfs bcachefs jfs".split())
KEYS = frozenset(
    # DeepSpeed's JSON
    "zero_optimization.stage zero_optimization.offload_optimizer.device zero_optimization.offload_param.device "
    "zero_optimization.cpu_offload train_micro_batch_size_per_gpu gradient_accumulation_steps "
    # accelerate's YAML
    "distributed_type num_processes num_machines deepspeed_config.zero_stage "
    "deepspeed_config.offload_optimizer_device deepspeed_config.offload_param_device "
    "deepspeed_config.gradient_accumulation_steps fsdp_config.fsdp_sharding_strategy "
    "fsdp_config.fsdp_offload_params fsdp_config.offload_params megatron_lm_config.megatron_lm_tp_degree "
    "megatron_lm_config.megatron_lm_pp_degree "
    # axolotl, LLaMA-Factory, the Trainer, vLLM
    "micro_batch_size per_device_train_batch_size dataloader_num_workers num_workers ddp_backend fsdp "
    "tensor_parallel_size pipeline_parallel_size tensor_model_parallel_size pipeline_model_parallel_size".split()
)
_NESTED = "deepspeed"  # a key whose value names another file
_VALUE = re.compile(r"[A-Za-z0-9_.+\-]{1,64}(?: [A-Za-z0-9_.+\-]{1,64}){0,3}")
_YAML_LINE = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z_][\w.-]{0,63})\s*:(?:\s+(?P<value>[^#]*?))?\s*(?:#.*)?")
_DEEPEST = 6


def named(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command line that name configuration files."""
    found: dict[str, None] = {}
    for word in words[1:]:
        path = word.rpartition("=")[2] if word.startswith("-") else word
        if path.endswith(_SUFFIXES) and len(path) < 1024 and "://" not in path:
            found.setdefault(path)
    return tuple(found)[:MOST_FILES]


def read(process: str, uid: int, words: tuple[str, ...], fstypes: Mapping[str, str]) -> Mapping[str, str]:
    """Return the wanted values of a process's configuration files; of two files the first one named counts more.

    Args:
        process: /proc/PID as a path.
        uid: its user: a file that this user may not read is not read for it.
        fstypes: where its file systems are mounted, by mount point.
    """
    values: dict[str, str] = {}
    paths = list(named(words))
    for path in paths:
        content = _file(process, uid, path, fstypes)
        if content is None:
            continue
        for key, value in flattened(content, as_json=path.endswith(".json")):
            if key == _NESTED and value.endswith(_SUFFIXES) and len(paths) < MOST_FILES:
                paths.append(value)
            elif key in KEYS and _VALUE.fullmatch(value):
                values.setdefault(key, value)
    return values


def flattened(content: str, *, as_json: bool) -> Iterator[tuple[str, str]]:
    """Return dotted keys and plain values of a JSON or YAML file; what is not understood is left out."""
    if not as_json:
        return _yaml(content)
    try:
        return _json(json.loads(content), "", 0)
    except (ValueError, RecursionError):
        return iter(())


def _json(value: object, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _json(inner, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, bool):
        yield prefix, str(value).lower()
    elif isinstance(value, (int, float, str)):
        yield prefix, str(value)


def _yaml(content: str) -> Iterator[tuple[str, str]]:
    """Return the block mappings of a YAML file, which is all that these files use; lists and the rest are skipped."""
    parents: list[tuple[int, str]] = []
    for line in content.splitlines():
        match = _YAML_LINE.fullmatch(line)
        if match is None:
            continue
        indent = len(match["indent"])
        while parents and parents[-1][0] >= indent:
            parents.pop()
        key = match["key"].replace("-", "_")
        value = (match["value"] or "").strip().strip("'\"")
        if value:
            yield ".".join([*(name for _, name in parents), key]), value
        elif len(parents) < _DEEPEST:
            parents.append((indent, key))


def _file(process: str, uid: int, path: str, fstypes: Mapping[str, str]) -> str | None:
    absolute = PurePosixPath(path)
    if not absolute.is_absolute():
        folder = files.link(f"{process}/cwd")
        if not folder:
            return None
        absolute = PurePosixPath(folder) / path
    elements = _elements(absolute)
    if elements is None or _file_system("/" + "/".join(elements), fstypes) not in _FILE_SYSTEMS:
        return None
    try:
        return _opened(f"{process}/root", elements, uid)
    except OSError:
        return None


def _elements(path: PurePosixPath) -> list[str] | None:
    """Return the path's elements with ".." resolved by name, None when it leaves the root."""
    elements: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            if not elements:
                return None
            elements.pop()
        elif part != ".":
            elements.append(part)
    return elements or None


def _file_system(path: str, fstypes: Mapping[str, str]) -> str:
    """Return the file system that holds a path: the longest mount point above it decides."""
    point = path
    while True:
        if point in fstypes:
            return fstypes[point]
        if point in ("/", ""):
            return ""
        point = point.rpartition("/")[0] or "/"


def _opened(root: str, elements: list[str], uid: int) -> str | None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for element in elements[:-1]:
            inner = os.open(element, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        # A handle that opens nothing yet: opening a device or a pipe may already do something.
        handle = os.open(elements[-1], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        with contextlib.suppress(OSError):
            os.close(folder)
    try:
        if not _may_be_read(os.fstat(handle), uid):
            return None
        with open(f"/proc/self/fd/{handle}", "rb") as file:  # noqa: PTH123 - a handle, not a path
            return file.read(LARGEST).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _may_be_read(status: os.stat_result, uid: int) -> bool:
    readable = status.st_uid == uid or bool(status.st_mode & stat.S_IROTH)
    return stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST and readable
