"""A recording gives back what was judged live, stays small and bounded, and survives damage."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpumon.model.errors import RecordingError
from gpumon.model.fault import same_value
from gpumon.model.process import ProcessTable
from gpumon.model.samples import LinkSlots, SamplerStats, Tick
from gpumon.recording import Writer, block, on_grid, read
from gpumon.recording.columns import pack, unpack
from gpumon.recording.grid import CLOCK, POWER, RATIO, SLOT_BYTES, TIME
from tests.recording.ticks import card, tick, ticks, topology


def same(left: Any, right: Any) -> bool:
    """Compare deeply, arrays and NaN included."""
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right, equal_nan=True)
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if isinstance(left, float):
        return same_value(left, right)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def no_warning(text: str) -> None:
    """Fail on any warning."""
    raise AssertionError(text)


def write(path: Path, made: list[Tick], **options: Any) -> list[Tick]:
    """Record ticks and return them as the daemon would judge them."""
    writer = Writer(path, **options)
    judged = [writer.write(one) for one in made]
    writer.close()
    return judged


def test_replay_gives_the_judged_values_bit_for_bit(tmp_path: Path) -> None:
    """Every number that the daemon judged comes back equal, to the last bit."""
    judged = write(tmp_path / "r", ticks(75), unmasked=True)
    back = list(read([tmp_path / "r"], no_warning))
    assert len(back) == 75
    for live, replayed in zip(judged, back, strict=True):
        assert same(dataclasses.replace(live, sampler=SamplerStats()), replayed)


def test_grid_is_idempotent() -> None:
    """Moving a value to the grid twice changes nothing."""
    values = np.concatenate(([np.nan, 0.0], np.random.default_rng(1).uniform(0, 5e9, 5000)))
    for step in (TIME, POWER, RATIO, CLOCK, SLOT_BYTES):
        once = step.decode(step.encode(values))
        assert np.array_equal(once, step.decode(step.encode(once)), equal_nan=True)
    one = on_grid(ticks(1)[0])
    assert same(one, on_grid(one))


def test_slot_bytes_stay_within_half_a_percent() -> None:
    """The grid of byte counts is fine enough for a mean within 1 %."""
    values = np.random.default_rng(2).uniform(1e4, 4e9, 5000)
    error = np.abs(SLOT_BYTES.decode(SLOT_BYTES.encode(values)) / values - 1)
    assert error.max() < 0.005


def test_an_hour_of_eight_cards_fits_five_megabytes(tmp_path: Path) -> None:
    """Five minutes of noisy samples of eight cards take at most a twelfth of 5 MB."""
    write(tmp_path / "r", ticks(300))
    assert (tmp_path / "r").stat().st_size * 12 <= 5_000_000


def test_command_lines_and_names_stay_out(tmp_path: Path) -> None:
    """A recording holds no text a tenant chose, no user and no host name, unless asked for."""
    write(tmp_path / "r", ticks(5))
    (first, *_) = read([tmp_path / "r"], no_warning)
    text = repr(first)
    for secret in ("train.py", "abc", "secret-name", "acme", "alice", "node7"):
        assert secret not in text
    assert "python" in text  # how the job was started stays


def test_a_column_that_an_older_gpumon_wrote_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording with a figure of the slots that is no longer kept gives the same ticks."""
    written = [on_grid(one) for one in ticks(5)]
    newer = tuple(block.decode(block.encode(written)))
    encode = block._encode_slots

    def older(slots: Sequence[LinkSlots]) -> block.SlotsBlock:
        made = encode(slots)
        made.columns["memory_controller_ratio"] = made.columns["power_watts"]
        return made

    monkeypatch.setattr(block, "_encode_slots", older)
    assert same(tuple(block.decode(block.encode(written))), newer)


def test_rotation_is_bounded(tmp_path: Path) -> None:
    """Files rotate at their size, the oldest goes, and the rest replays in order."""
    made = ticks(300, card_count=2)
    write(tmp_path / "r", made, max_file_bytes=20_000, kept_files=3)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 20_000 for file in files)
    seqs = [one.seq for one in read(files, no_warning)]
    assert seqs == list(range(seqs[0], 300))


def test_an_existing_recording_is_not_overwritten(tmp_path: Path) -> None:
    """Starting again moves the old file aside."""
    write(tmp_path / "r", ticks(2))
    write(tmp_path / "r", ticks(3))
    assert len(list(read([tmp_path / "r"], no_warning))) == 3
    assert len(list(read([tmp_path / "r.1"], no_warning))) == 2


def test_a_truncated_file_gives_its_whole_blocks(tmp_path: Path) -> None:
    """After a crash the whole blocks replay, and one sentence says where it ends."""
    write(tmp_path / "r", ticks(70, card_count=1))
    data = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(data[:-20])
    warnings: list[str] = []
    assert len(list(read([tmp_path / "r"], warnings.append))) == 60
    assert len(warnings) == 1
    assert "ends in the middle of a block" in warnings[0]


def test_a_damaged_block_costs_only_itself(tmp_path: Path) -> None:
    """Flipped bits in one block leave the others readable."""
    write(tmp_path / "r", ticks(90, card_count=1))
    data = bytearray((tmp_path / "r").read_bytes())
    data[100] ^= 0xFF
    (tmp_path / "r").write_bytes(data)
    warnings: list[str] = []
    assert len(list(read([tmp_path / "r"], warnings.append))) == 60
    assert "damaged" in warnings[0]


def test_random_bytes_are_refused_in_one_sentence(tmp_path: Path) -> None:
    """What is no recording is refused; what only claims to be one yields nothing and a warning."""
    (tmp_path / "x").write_bytes(os.urandom(3000).replace(b",", b""))
    with pytest.raises(RecordingError, match="begins no known log"):
        list(read([tmp_path / "x"], lambda _: None))
    (tmp_path / "y").write_bytes(b"gpumon recording 1\n" + os.urandom(3000))
    warnings: list[str] = []
    assert list(read([tmp_path / "y"], warnings.append)) == []
    assert warnings


def test_a_new_card_list_starts_a_new_block(tmp_path: Path) -> None:
    """Cards may come and go within a recording."""
    one, two = (card(0),), (card(0), card(1))
    made = [tick(n, one, topology(one), ProcessTable()) for n in range(3)]
    made += [tick(n, two, topology(two), ProcessTable()) for n in range(3, 6)]
    write(tmp_path / "r", made)
    assert [len(back.cards) for back in read([tmp_path / "r"], no_warning)] == [1, 1, 1, 2, 2, 2]


def test_a_full_disk_loses_blocks_and_not_the_daemon(tmp_path: Path) -> None:
    """When a write fails the problem is told, and recording goes on when there is room again."""
    writer = Writer(tmp_path / "r")
    for one in ticks(30, card_count=1):
        writer.write(one)

    class Full:
        """A file on a full disk: half of the block is written."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    real = writer._file
    writer._file = Full(real)  # type: ignore[assignment]
    for one in ticks(60, card_count=1)[30:]:
        writer.write(one)
    assert "No space left" in writer.problem
    writer._file = real
    for one in ticks(90, card_count=1)[60:]:
        writer.write(one)
    assert writer.problem == ""
    writer.close()
    assert len(list(read([tmp_path / "r"], no_warning))) == 60


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    """A recording that cannot be created is one sentence."""
    with pytest.raises(RecordingError, match=r"cannot be written: No such file"):
        Writer(tmp_path / "none" / "r")


def test_columns_round_trip() -> None:
    """Packed numbers come back for every width, with and without differences."""
    for top in (1, 100, 1 << 14, 1 << 30, 1 << 50):
        codes = np.array([0, top, -1, top - 1, 0], np.int64)
        assert np.array_equal(unpack(pack(codes)), codes)
        assert np.array_equal(unpack(pack(codes, delta=True)), codes)
    assert unpack(pack(np.array([], np.int64))).size == 0
