"""Logs of other tools become ticks: dmon text, --query-gpu CSV, tables; what is missing stays missing."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.errors import RecordingError
from gpumon.model.samples import Tick
from gpumon.recording import read


def replay(tmp_path: Path, text: str) -> tuple[list[Tick], list[str]]:
    """Read a log from text."""
    file = tmp_path / "log"
    file.write_text(text, "utf-8")
    warnings: list[str] = []
    return list(read([file], warnings.append)), warnings


QUERY_UNITS = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], pcie.link.width.current
2024/05/01 12:00:00.100, 0, NVIDIA GeForce RTX 4090, 98 %, 20000 MiB, 301.50 W, 16
2024/05/01 12:00:00.104, 1, NVIDIA GeForce RTX 4090, 97 %, 20100 MiB, [Not Supported], 8
2024/05/01 12:00:01.101, 0, NVIDIA GeForce RTX 4090, 96 %, 20000 MiB, 299.00 W, 16
2024/05/01 12:00:01.105, 1, NVIDIA GeForce RTX 4090, 95 %, 20100 MiB, N/A, 8
"""
QUERY_BARE = """timestamp, utilization.gpu [%], memory.used [MiB], power.draw [W]
2024/05/01 12:00:00.100, 98, 20000, 301.50
2024/05/01 12:00:01.101, 96, 20000, 299.00
"""


def test_query_csv_with_units(tmp_path: Path) -> None:
    """Units in the cells are honoured, what is not supported is missing."""
    ticks, warnings = replay(tmp_path, QUERY_UNITS)
    assert not warnings
    assert len(ticks) == 2
    first, second = ticks[0].card_ticks
    assert first.reading("utilization_ratio") == pytest.approx(0.98)
    assert first.reading("memory_used_bytes") == 20000 * 2**20
    assert first.reading("power_watts") == 301.5
    assert math.isnan(second.reading("power_watts"))
    assert second.reading("link_width_lanes") == 8
    assert ticks[0].cards[1].identity.name == "NVIDIA GeForce RTX 4090"
    assert ticks[1].mono_s - ticks[0].mono_s == pytest.approx(1.0, abs=0.01)


def test_query_csv_without_units(tmp_path: Path) -> None:
    """Bare numbers take the unit that nvidia-smi prints in them."""
    ticks, _ = replay(tmp_path, QUERY_BARE)
    assert len(ticks[0].cards) == 1
    assert ticks[1].card_ticks[0].reading("utilization_ratio") == pytest.approx(0.96)


def test_local_time_jumps_count_as_one_period(tmp_path: Path) -> None:
    """An hour back (summer time) or a day forward does not tear the time line."""
    lines = ["timestamp, power.draw [W]"]
    lines += [f"2024/10/27 02:59:{second:02d}.000, 100 W" for second in range(50, 60)]
    lines += [f"2024/10/27 02:00:{second:02d}.000, 100 W" for second in range(10)]
    lines += [f"2024/10/28 05:00:{second:02d}.000, 100 W" for second in range(10)]
    ticks, _ = replay(tmp_path, "\n".join(lines))
    steps = [b.mono_s - a.mono_s for a, b in itertools.pairwise(ticks)]
    assert steps == pytest.approx([1.0] * 29)


DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  rxpci  txpci     fb   bar1
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz   MB/s   MB/s     MB     MB
    0    301     60      -     99     12      0      0      -      -  10501   2505   9000   8800  20000     10
    1    302     61      -     98     11      0      0      -      -  10501   2505   9100      -  20000     10
    0    300     60      -     99     12      0      0      -      -  10501   2505   9000   8800  20000     10
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  rxpci  txpci     fb   bar1
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz   MB/s   MB/s     MB     MB
    1    303     61      -     97     11      0      0      -      -  10501   2505   9100   8700  20000     10
"""


def test_dmon_all_columns_and_repeated_headers(tmp_path: Path) -> None:
    """Every column set is read, '-' is missing, a header in the middle of a pass does no harm."""
    ticks, warnings = replay(tmp_path, DMON)
    assert not warnings
    assert len(ticks) == 2
    first, second = ticks[0].card_ticks
    assert first.reading("sm_clock_hertz") == 2505e6
    assert math.isnan(first.reading("temperature_memory_celsius"))
    assert first.pcie.rx_bytes.tolist() == pytest.approx([9000e6 * 0.02])
    assert math.isnan(second.pcie.tx_bytes[0])
    assert ticks[1].mono_s - ticks[0].mono_s == 1.0


@pytest.mark.parametrize(
    ("columns", "first", "second"),
    [("Time", "12:00:09", "12:00:19"), ("Date       Time", "20240501 23:59:55", "20240502 00:00:05")],
)
def test_dmon_with_stamps(tmp_path: Path, columns: str, first: str, second: str) -> None:
    """-o T and -o DT give the real distance of the samples, over midnight too where the date is there."""
    text = f"#{columns}  gpu  pwr\n#HH:MM:SS  Idx  W\n {first}  0  100\n {second}  0  101\n"
    ticks, warnings = replay(tmp_path, text)
    assert not warnings
    assert ticks[1].mono_s - ticks[0].mono_s == 10.0


@pytest.mark.parametrize(
    "columns",
    [
        "pwr gtemp mtemp",
        "sm mem enc dec",
        "mclk pclk",
        "rxpci txpci",
        "fb bar1 ccpm",
        "sbecc dbecc pci",
        "pviol tviol",
    ],
)
def test_dmon_column_sets(tmp_path: Path, columns: str) -> None:
    """Each of dmon's -s sets alone replays, known columns or not."""
    cells = " ".join("1" for _ in columns.split())
    ticks, warnings = replay(tmp_path, f"# gpu {columns}\n# Idx x\n 0 {cells}\n 0 {cells}\n")
    assert len(ticks) == 2
    assert not warnings


def test_broken_lines_are_counted_once(tmp_path: Path) -> None:
    """Lines that do not fit are left out and told together."""
    ticks, warnings = replay(tmp_path, QUERY_UNITS + "garbage\n2024/05/01 12:00:02.1, 0\n")
    assert len(ticks) == 2
    assert len(warnings) == 1
    assert "2 lines do not fit" in warnings[0]


def test_every_trace_replays(shared_dir: Path) -> None:
    """Each recorded file is read; tables of results without times say so."""
    for file in sorted((shared_dir / "traces").glob("*.csv")):
        warnings: list[str] = []
        ticks = list(read([file], warnings.append))
        assert ticks or "nothing to replay" in warnings[0], file
        times = [tick.mono_s for tick in ticks]
        assert times == sorted(set(times)), file


def test_runs_behind_each_other(tmp_path: Path) -> None:
    """Where t_s falls back a new run begins, later than the one before."""
    text = "card,power_limit_w,t_s,power_w\na,300,0.0,290\na,300,1.2,291\na,350,0.0,340\na,350,1.2,341\n"
    text += "b,300,0.0,290\nb,300,1.2,291\n"
    ticks, _ = replay(tmp_path, text)
    assert [round(tick.mono_s, 1) for tick in ticks] == [0.0, 1.2, 2.2, 3.4, 4.4, 5.6]
    assert [card.identity.name for card in ticks[-1].cards] == ["a", "b"]


def test_several_logs_are_refused(tmp_path: Path) -> None:
    """Two logs have no common time line."""
    (tmp_path / "a").write_text(QUERY_BARE)
    (tmp_path / "b").write_text(QUERY_BARE)
    with pytest.raises(RecordingError, match="several logs"):
        list(read([tmp_path / "a", tmp_path / "b"], print))


@given(st.text(max_size=400))
def test_any_text_after_a_header_does_no_harm(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever follows the header, reading ends without an exception and time does not go back."""
    folder = tmp_path_factory.mktemp("log")
    for header in ("# gpu pwr sm\n", "timestamp, index, power.draw [W]\n", "t_s,gpu,power_w\n"):
        ticks, _ = replay(folder, header + text)
        times = [tick.mono_s for tick in ticks]
        assert times == sorted(times)
