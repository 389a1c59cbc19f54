"""The physical truth: exact integrals, a bounded past, and the file that other languages read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpumon.hardware.simulated.export import export_timeline
from gpumon.hardware.simulated.timeline import COLUMNS, KEPT_SECONDS, Timeline
from gpumon.hardware.simulated.timeline_file import CHANNELS, CardTimeline, read_timeline, write_timeline
from gpumon.model.errors import RecordingError


def _filled(keeps_all: bool, stretches: int, length_s: float = 1.0) -> Timeline:
    timeline = Timeline(keeps_all)
    for number in range(stretches):
        timeline.append((number + 1) * length_s, [float(number)] * COLUMNS)
        if number % 10 == 9:
            timeline.flush()
    timeline.flush()
    return timeline


def test_integrals_are_exact_between_breakpoints() -> None:
    """The integral of piecewise constant rates is linear inside a stretch and the same by every way of asking."""
    timeline = _filled(True, 100)
    for column in (0, COLUMNS - 1):
        assert timeline.integral_at(column, 2.5) == 0 + 1 + 0.5 * 2
        assert timeline.integral(column, np.array([2.5, 50.25])).tolist() == [2.0, sum(range(50)) + 0.25 * 50]
        assert timeline.integrals_at(2.5)[column] == 2.0
        assert timeline.mean_between(column, 2.0, 4.0) == 2.5


def test_past_is_forgotten_but_integrals_stay() -> None:
    """A timeline that may forget keeps the newest stretches and the totals of all."""
    forgetful, complete = _filled(False, 20_000), _filled(True, 20_000)
    assert forgetful.start_s > 0
    assert forgetful.end_s - forgetful.start_s >= KEPT_SECONDS
    assert forgetful.integral_at(3, 19_990.5) == complete.integral_at(3, 19_990.5)


def test_file_gives_back_what_was_written(tmp_path: Path) -> None:
    """Text and numbers of a timeline file survive a round trip."""
    n = 3
    card = CardTimeline(
        np.array([0.0, 1.0, 2.5]),
        np.arange(len(CHANNELS) * n, dtype=float).reshape(len(CHANNELS), n),
        np.ones((len(CHANNELS), n)),
    )
    write_timeline(tmp_path / "t", 9.0, ["node hostname sim", "card 0 name NVIDIA A 1"], [card, card])
    back = read_timeline(tmp_path / "t")
    assert back.seconds == 9.0
    assert back.lines == ("node hostname sim", "card 0 name NVIDIA A 1")
    for read in back.cards:
        np.testing.assert_array_equal(read.t_s, card.t_s)
        np.testing.assert_array_equal(read.rate, card.rate)
        np.testing.assert_array_equal(read.cumulative, card.cumulative)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A file that is no timeline is named in the error."""
    (tmp_path / "t").write_bytes(b"gpu,power\n")
    with pytest.raises(RecordingError, match="not a timeline file"):
        read_timeline(tmp_path / "t")


def test_exported_cumulative_is_the_integral_of_the_rate(tmp_path: Path) -> None:
    """In an exported scenario each cumulative value is the sum of rate times length before it."""
    export_timeline("rtx5090-x8-ddp-bound", 0, 5.0, tmp_path / "t")
    read = read_timeline(tmp_path / "t")
    assert len(read.cards) == 8
    for card in read.cards:
        assert card.t_s[0] == 0.0
        assert np.all(np.diff(card.t_s) > 0)
        lengths = np.diff(card.t_s)
        sums = np.cumsum(card.rate[:, :-1] * lengths, axis=1)
        np.testing.assert_allclose(card.cumulative[:, 1:], sums, rtol=1e-9, atol=1e-6)
