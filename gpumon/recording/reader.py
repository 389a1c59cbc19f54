"""Read ticks from files, whatever wrote them: gpumon, nvidia-smi, or a table of samples."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpumon.model.errors import RecordingError
from gpumon.model.samples import Tick
from gpumon.recording import block
from gpumon.recording.logs import read_log
from gpumon.recording.writer import HEADER, MAGIC, MARK

Warn = Callable[[str], None]


def read(paths: Sequence[str | Path], warn: Warn) -> Iterator[Tick]:
    """Yield the ticks of one recording or log after the other, in the order of their first tick.

    Args:
        paths: gpumon recordings (rotated parts in any order) or one log of another tool.
        warn: told once for each thing that could not be read, in one sentence.
    Raises: RecordingError when a file is no recording or log at all.
    """
    recordings = [path for path in paths if _is_recording(path)]
    if not recordings:
        if len(paths) != 1:
            raise RecordingError("several logs cannot be replayed as one: give one log, or parts of one recording")
        yield from read_log(Path(paths[0]), warn)
        return
    if len(recordings) != len(paths):
        other = next(path for path in paths if path not in recordings)
        raise RecordingError(f"{other}: is no gpumon recording: recordings and logs cannot be replayed together")
    parts = sorted(recordings, key=_first_wall_s)
    last_mono_s = float("-inf")
    for path in parts:
        for tick in _ticks(path, warn):
            if tick.mono_s > last_mono_s:  # parts may overlap when a file was copied while it was rotated
                last_mono_s = tick.mono_s
                yield tick


def _is_recording(path: str | Path) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from None


def _first_wall_s(path: str | Path) -> float:
    return next((tick.wall_s for tick in _ticks(path, lambda _: None)), float("inf"))


def _ticks(path: str | Path, warn: Warn) -> Iterator[Tick]:
    with Path(path).open("rb") as file:
        file.seek(len(MAGIC))
        while header := file.read(HEADER.size):
            place = f"{path}: at byte {file.tell() - len(header)}"
            if len(header) < HEADER.size:
                warn(f"{place}: the recording ends in the middle of a block; what follows was not written")
                return
            mark, length, crc = HEADER.unpack(header)
            payload = file.read(length) if mark == MARK and length <= block.MAX_BLOCK_BYTES else b""
            if mark != MARK or len(payload) < length:
                warn(f"{place}: the recording ends in the middle of a block; what follows was not written")
                return
            if zlib.crc32(payload) != crc:
                warn(f"{place}: a block of about 30 s is damaged and left out")
                continue
            try:
                yield from block.decode(payload)
            except ValueError as error:
                warn(f"{place}: a block cannot be understood by this version and is left out: {error}")
