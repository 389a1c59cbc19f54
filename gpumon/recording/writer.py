"""Write ticks to a file: bounded, rotated, and readable up to the last whole block after a crash.

The file is a magic line and then blocks, each with its length and CRC. When a file reaches its size it becomes FILE.1,
FILE.1 becomes FILE.2, and so on; the oldest is deleted.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from gpumon.model.errors import RecordingError
from gpumon.model.samples import Tick
from gpumon.recording import block
from gpumon.recording.grid import on_grid
from gpumon.recording.mask import masked

MAGIC = b"gpumon recording 1\n"
HEADER = struct.Struct("<4sII")  # mark, length, CRC-32 of the payload
MARK = b"GMB1"

BLOCK_TICKS = 30  # at most half a minute is lost when the process is killed
MAX_FILE_BYTES = 32 << 20  # about six hours of eight cards
KEPT_FILES = 8


class Writer:
    """Takes one tick a second. A write that fails (disk full) drops that block and is told by `problem`."""

    def __init__(
        self,
        path: str | Path,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        kept_files: int = KEPT_FILES,
        unmasked: bool = False,
    ) -> None:
        """Open the file for a new recording; an existing one is rotated away first.

        Raises: RecordingError when the file cannot be created.
        """
        self._path = Path(path)
        self._max_file_bytes = max_file_bytes
        self._kept_files = kept_files
        self._unmasked = unmasked
        self._ticks: list[Tick] = []
        self.problem = ""  # why the newest block could not be written; "" when it was
        try:
            if self._path.exists():
                self._rotate()
            self._file = self._start()
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written: {error.strerror or error}") from None

    def write(self, tick: Tick) -> Tick:
        """Add a tick and return it as the recording holds its numbers: judge that one, and a replay judges the same."""
        tick = on_grid(tick)
        if self._ticks and not _fits(self._ticks[-1], tick):
            self._flush()
        self._ticks.append(tick)
        if len(self._ticks) >= BLOCK_TICKS:
            self._flush()
        return tick

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if not self._ticks:
            return
        ticks, self._ticks = self._ticks, []
        if not self._unmasked:
            ticks = _without_text(ticks)
        payload = block.encode(ticks)
        start = self._file.tell()
        try:
            if start + len(payload) > self._max_file_bytes and start > len(MAGIC):
                self._file.close()
                self._rotate()
                self._file = self._start()
            self._file.write(HEADER.pack(MARK, len(payload), zlib.crc32(payload)) + payload)
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._path}: block not written: {error.strerror or error}"
            self._cut(start)
        else:
            self.problem = ""

    def _start(self) -> BinaryIO:
        # Unbuffered: a block that does not fit the disk fails in write(), where it can be cut away again.
        file = self._path.open("wb", buffering=0)
        file.write(MAGIC)
        return file

    def _cut(self, length: int) -> None:
        """Take a half-written block away, so that the next one can be found."""
        try:
            self._file.truncate(length)
            self._file.seek(length)
        except (OSError, ValueError):
            # The file itself is gone or was closed by a failed rotation: try a fresh one, else stay with the problem.
            try:
                self._file = self._start()
            except OSError as error:
                self.problem = f"{self._path}: cannot be written: {error.strerror or error}"

    def _rotate(self) -> None:
        for number in range(self._kept_files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            if newer.exists():
                newer.replace(older)


def _fits(last: Tick, tick: Tick) -> bool:
    return (
        last.cards == tick.cards
        and (last.node is tick.node or last.node == tick.node)
        and (last.topology is tick.topology or last.topology == tick.topology)
    )


def _without_text(ticks: list[Tick]) -> list[Tick]:
    tables = {id(tick.processes): tick.processes for tick in ticks}
    hidden = {key: masked(table) for key, table in tables.items()}
    return [replace(tick, processes=hidden[id(tick.processes)], node=replace(tick.node, hostname="")) for tick in ticks]
