"""The keeper: what is offered is written once, what others change is read, a file that cannot be written is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpumon.history import keeper as keeping
from gpumon.history.keeper import Keeper, with_news
from gpumon.history.store import CARDS_MISSED_S, Store, read
from gpumon.model.past import Past
from gpumon.model.settings import HistorySettings

from .made import WALL_S, rate, run

SETTINGS = HistorySettings()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the keeper's clocks by hand."""
    now = {"s": 0.0}
    monkeypatch.setattr(keeping.time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(keeping.time, "time", lambda: WALL_S + now["s"])

    def move(seconds: float) -> None:
        now["s"] += seconds

    return move


@pytest.fixture
def keeper(tmp_path: Path, clock: Callable[[float], None]) -> Iterator[Keeper]:
    """A keeper whose turns are taken by hand."""
    made = Keeper(tmp_path / "history.sqlite", SETTINGS)
    made.turn()
    yield made


def test_what_is_offered_is_written_and_known(keeper: Keeper, tmp_path: Path) -> None:
    """Runs and rates are in the file and in the past after a turn."""
    one, best = run(2), rate(2, 14.9e9)
    keeper.offer([one], {(best.uuids, best.link): best})
    keeper.turn()
    assert [known.key for known in read(tmp_path / "history.sqlite")[0]] == [one.key]
    assert keeper.past.runs[one.workload] == (one,)
    assert keeper.past.rates[best.uuids, best.link] == best
    assert keeper.findings == ()


def test_a_rate_only_ever_improves(keeper: Keeper) -> None:
    """A slower day does not overwrite what a set of cards has shown."""
    for seen in (14e9, 9e9, 15e9, 3e9):
        fresh = rate(2, seen)
        keeper.offer([], {(fresh.uuids, fresh.link): fresh})
        keeper.turn()
    assert keeper.past.rates[rate(2, 0.0).uuids, "pcie"].bytes_per_second == 15e9


def test_cards_that_answered_are_known_to_the_next_life_for_a_week(
    keeper: Keeper, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    """Eight cards and then seven: a gpumon that starts anew knows of eight until a week after the last time."""

    def known() -> int:
        fresh = Keeper(tmp_path / "history.sqlite", SETTINGS)
        fresh.turn()
        return fresh.past.most_cards

    for cards in (8, 7, 0):
        keeper.offer([], {}, cards)
        keeper.turn()
    assert keeper.past.most_cards == known() == 8
    clock(CARDS_MISSED_S - 60.0)
    assert known() == 8
    keeper.offer([], {}, 7)
    keeper.turn()
    clock(120.0)
    assert known() == 7


def test_what_another_process_forgets_is_forgotten(keeper: Keeper, tmp_path: Path) -> None:
    """After `gpumon history --forget` the next turn knows nothing of the tenant."""
    keeper.offer([run(2)], {})
    keeper.turn()
    with closing(Store.open(tmp_path / "history.sqlite", SETTINGS, WALL_S)) as other:
        other.forget("acme")
    keeper.turn()
    assert keeper.past.runs == {}


def test_what_is_forgotten_is_dropped_and_not_written_again(keeper: Keeper, tmp_path: Path) -> None:
    """A run under way whose tenant is forgotten is named to the pipeline and stays out of the file until it is gone."""
    path = tmp_path / "history.sqlite"
    going_on = run(2, ended=False)
    keeper.offer([going_on], {})
    keeper.turn()
    with closing(Store.open(path, SETTINGS, WALL_S)) as other:
        other.forget("acme")
    grown = run(2, ended=False, watched_s=700.0)
    for _ in range(2):
        keeper.offer([grown], {})
        keeper.turn()
        assert keeper.past.forgotten == {going_on.beginning}
        assert (keeper.past.runs, read(path)[0]) == ({}, [])
    anew = run(2, ended=False, watched_s=5.0, begin_wall_s=WALL_S + 700.0)
    keeper.offer([anew], {})
    keeper.turn()
    assert keeper.past.forgotten == frozenset()
    assert [one.watched_s for one in read(path)[0]] == [5.0]


def test_what_is_forgotten_while_it_is_written_is_not_written(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant forgotten after the keeper has looked, but before it writes, stays forgotten."""
    path = tmp_path / "history.sqlite"
    keeper.offer([run(2, ended=False)], {})
    keeper.turn()
    with closing(Store.open(path, SETTINGS, WALL_S)) as other:
        other.forget("acme")
    monkeypatch.setattr(Keeper, "_read", lambda _: None)
    keeper.offer([run(2, ended=False, watched_s=700.0)], {})
    keeper.turn()
    assert read(path)[0] == []
    assert keeper.past.forgotten == {run(2).beginning}


def test_a_file_that_cannot_be_written_is_said_and_tried_again(tmp_path: Path, clock: Callable[[float], None]) -> None:
    """The finding holds while it lasts, nothing is lost meanwhile, and a minute later all of it is written."""
    folder = tmp_path / "state"
    folder.write_text("a file in the way of the folder")
    keeper = Keeper(folder / "history.sqlite", SETTINGS)
    with capture_logs() as logs:
        keeper.turn()
        keeper.offer([run(2)], {})
        keeper.turn()
        assert [found.finding for found in keeper.findings] == ["history_read_only"]
        assert str(folder) in keeper.findings[0].evidence[0]
        folder.unlink()
        keeper.turn()
        assert keeper.findings, "tried again only after a minute"
        clock(61.0)
        keeper.turn()
    assert keeper.findings == ()
    assert [one.key for one in read(folder / "history.sqlite")[0]] == [run(2).key]
    assert [entry["event"] for entry in logs] == ["the history is not written", "the history is written again"]


def test_a_file_that_can_only_be_read_is_read(
    tmp_path: Path, clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs from before are compared although nothing new can be kept."""
    path = tmp_path / "history.sqlite"
    with closing(Store.open(path, SETTINGS, WALL_S)) as store:
        store.write([run(2)], [])

    def refuse(*_: object) -> None:
        raise OSError("Read-only file system")

    monkeypatch.setattr("gpumon.history.store._for_writing", refuse)
    keeper = Keeper(path, SETTINGS)
    keeper.turn()
    assert keeper.past.runs.keys() == {run(2).workload}
    assert "Read-only file system" in keeper.findings[0].evidence[0]


def test_a_damaged_file_is_told_once(tmp_path: Path, clock: Callable[[float], None]) -> None:
    """The log names the file that was set aside, and the keeper goes on with a new one."""
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"\0" * 4096 + b"noise" * 5000)
    keeper = Keeper(path, SETTINGS)
    with capture_logs() as logs:
        keeper.turn()
        keeper.offer([run(2)], {})
        keeper.turn()
    assert [entry["event"] for entry in logs] == ["the history was damaged and is begun anew"]
    assert logs[0]["damaged"] == f"{path}.damaged-{int(WALL_S)}"
    assert keeper.findings == ()


def test_a_file_damaged_while_it_is_open_is_set_aside_later(
    keeper: Keeper, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    """The hourly check finds what was damaged behind our back: set aside, and what is offered is kept."""
    path = tmp_path / "history.sqlite"
    keeper.offer([run(8, number) for number in range(300)], {})
    keeper.turn()
    assert keeper._store is not None
    keeper._store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    for _ in range(3):
        clock(3601.0)
        keeper.offer([run(2)], {})
        keeper.turn()
    assert keeper.findings == ()
    assert [one.key for one in read(path)[0]] == [run(2).key]
    assert list(tmp_path.glob("*.damaged-*"))


def test_news_replace_what_they_renew() -> None:
    """A run that grew stands first, once; a run without an identity is not compared with anything."""
    past = with_news(Past(), [run(2, 1), run(2, 2)], [])
    grown = run(2, 1, watched_s=1200.0)
    past = with_news(past, [grown, run(4, workload="")], [])
    assert [one.key for one in past.runs[grown.workload]] == [grown.key, run(2, 2).key]
    assert past.runs.keys() == {grown.workload}
