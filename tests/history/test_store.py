"""The history's file: what goes in comes out, limits hold, nothing that happens to the disk stops the daemon."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpumon.history import rows, schema
from gpumon.history.place import salt_in
from gpumon.history.rows import of_run, to_run
from gpumon.history.store import RUNS_OF_A_WORKLOAD, HistoryError, Store, read
from gpumon.model.past import HeldFinding, Run, Shares
from gpumon.model.settings import HistorySettings

from .made import WALL_S, rate, run

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = HistorySettings()
NOW_S = WALL_S + 86400.0


def _open(path: Path, settings: HistorySettings = SETTINGS) -> Store:
    return Store.open(path, settings, NOW_S)


def _keys(runs: list[Run]) -> list[tuple[str, tuple[str, ...]]]:
    return [one.key for one in runs]


def test_a_run_survives_the_file(tmp_path: Path) -> None:
    """Every figure of a run comes back as it was, missing ones as missing."""
    path = tmp_path / "history.sqlite"
    with closing(_open(path)) as store:
        store.write([run(4, energy_joules_per_step=812.5), run(2, step_s=float("nan"), split=None)], [rate(4, 21.8e9)])
    runs, rates = read(path)
    assert {one.count: of_run(one) for one in runs} == {
        4: of_run(run(4, energy_joules_per_step=812.5)),
        2: of_run(run(2, step_s=float("nan"), split=None)),
    }
    assert rates == [rate(4, 21.8e9)]


def test_a_run_is_replaced_by_its_newer_state(tmp_path: Path) -> None:
    """The same job on the same cards is one row, whatever is learned of it later."""
    with closing(_open(tmp_path / "h")) as store:
        store.write([run(2, watched_s=60.0, ended=False)], [])
        store.write([run(2, watched_s=600.0)], [])
        assert [one.watched_s for one in store.runs()] == [600.0]


def test_old_runs_go(tmp_path: Path) -> None:
    """What was last seen before the retention is deleted."""
    with closing(_open(tmp_path / "h")) as store:
        store.write([run(2, 0), run(2, 80)], [rate(2, 1e9)])
        store.prune(HistorySettings(retention_s=7200.0), WALL_S + 80_000.0 + 3600.0)
        assert _keys(store.runs()) == [run(2, 80).key]
        assert store.rates() == []


def test_the_size_has_a_limit(tmp_path: Path) -> None:
    """A full file makes room by deleting its oldest runs, and never grows past its limit."""
    path = tmp_path / "h"
    settings = HistorySettings(most_bytes=1 << 20)
    with closing(_open(path, settings)) as store:
        for number in range(0, 6000, 200):
            store.write([run(8, number + n) for n in range(200)], [])
        numbers = sorted(int(one.gpu_job[-10:]) for one in store.runs())
        assert numbers[-1] == 5999
        assert 500 < len(numbers) < 5000
    assert path.stat().st_size <= 1 << 20


def test_past_is_bounded_and_newest_first(tmp_path: Path) -> None:
    """A judgement is handed the newest runs of each workload, and none without an identity."""
    with closing(_open(tmp_path / "h")) as store:
        store.write([run(2, number) for number in range(100)], [])
        store.write([run(4, 200, workload="")], [])
        past = store.past()
    (known,) = past.runs.values()
    assert len(known) == RUNS_OF_A_WORKLOAD
    assert known[0].key == run(2, 99).key


def test_forgetting_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    """After a tenant is forgotten not one byte of its name or its jobs is left on the disk, and others stay."""
    path = tmp_path / "h"
    with closing(_open(path)) as store:
        store.write([run(2, number, tenant="globex-corp") for number in range(50)] + [run(4)], [])
        assert store.forget("globex-corp") == 50
        assert _keys(store.runs()) == [run(4).key]
        on_disk = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"globex-corp" not in on_disk
    assert run(2, 7).gpu_job.encode() not in on_disk


def test_two_processes_at_once(tmp_path: Path) -> None:
    """A reader and a second writer do not disturb the one that keeps the file, which sees that it was changed."""
    path = tmp_path / "h"
    with closing(_open(path)) as keeper, closing(_open(path)) as other:
        keeper.write([run(2)], [])
        before = keeper.changed_by_others()
        assert read(path)[0]
        assert other.forget("acme") == 1
        assert keeper.changed_by_others() != before
        assert keeper.runs() == []


@pytest.mark.parametrize("where", ["head", "middle", "tail", "everything", "text"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, where: str) -> None:
    """Whatever is broken in the file, it lies beside a new one that works, and the path of the old one is told."""
    path = tmp_path / "h"
    with closing(_open(path)) as store:
        store.write([run(8, number) for number in range(400)], [])
    data = bytearray(path.read_bytes())
    noise = random.Random(where)
    spans = {
        "head": range(100),
        "middle": range(len(data) // 3, len(data) // 3 + 40_000),
        "tail": range(len(data) - 20_000, len(data)),
        "everything": range(len(data)),
        "text": range(0),
    }
    for place in spans[where]:
        data[place] = noise.randrange(256)
    path.write_bytes(b"not a database at all\n" * 100 if where == "text" else bytes(data))
    with closing(_open(path)) as store:
        assert store.set_aside == tmp_path / f"h.damaged-{int(NOW_S)}"
        assert store.set_aside.exists()
        assert store.runs() == []
        store.write([run(2)], [])
        assert len(store.runs()) == 1


def test_few_damaged_files_are_kept(tmp_path: Path) -> None:
    """A machine that damages files again and again does not fill its disk with them."""
    path = tmp_path / "h"
    for number in range(5):
        path.write_bytes(b"noise" * 1000)
        Store.open(path, SETTINGS, NOW_S + number).close()
    assert sorted(file.name for file in tmp_path.glob("*.damaged-*")) == [
        f"h.damaged-{int(NOW_S) + 3}",
        f"h.damaged-{int(NOW_S) + 4}",
    ]


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """A file written by a newer gpumon is neither changed nor set aside, and the sentence says what to do."""
    path = tmp_path / "h"
    Store.open(path, SETTINGS, NOW_S).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match=r"is of version 99.*written by a newer one"):
        _open(path)
    assert path.exists()
    assert not list(tmp_path.glob("*.damaged-*"))


def test_migration_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """A later version's script that fails leaves the file at the version before, with its rows."""
    path = tmp_path / "h"
    with closing(_open(path)) as store:
        store.write([run(2)], [])
        released = len(schema.MIGRATIONS)
        broken = (*schema.MIGRATIONS, "ALTER TABLE run ADD COLUMN extra TEXT; SELECT * FROM nowhere;")
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(store.connection, broken)
    with closing(_open(path)) as store:
        good = (*schema.MIGRATIONS, "ALTER TABLE run ADD COLUMN extra TEXT NOT NULL DEFAULT '';")
        assert schema.version_of(store.connection) == released
        schema.migrate(store.connection, good)
        assert schema.version_of(store.connection) == released + 1
        assert _keys(store.runs()) == [run(2).key]


def test_runs_of_an_older_file_are_judged_as_they_were(tmp_path: Path) -> None:
    """The first version's files hold no memory share and no findings: theirs are none, and their other shares stay."""
    path = tmp_path / "h"
    kept = run(2, shares=Shares(0.6, 0.1, 0.3, 0.0, 0.0, 0.2, 0.04), findings=(HeldFinding("gloo"),))
    cells = dict(zip(rows.COLUMNS, rows.of_run(kept), strict=True))
    del cells["share_memory"], cells["findings"]
    with closing(sqlite3.connect(path)) as first, first:
        first.executescript(f"{schema.MIGRATIONS[0]} PRAGMA user_version = 1;")
        first.execute(
            f"INSERT INTO run ({', '.join(cells)}) VALUES ({', '.join('?' * len(cells))})", tuple(cells.values())
        )
    with closing(_open(path)) as store:
        (read_again,) = store.runs()
    assert read_again.shares == Shares(0.6, 0.1, 0.3, 0.0, 0.0, 0.0, 0.04)
    assert read_again.findings == ()


def test_findings_are_kept_with_their_promise(tmp_path: Path) -> None:
    """A run's findings come back as they were, with the gain where one was promised."""
    found = (HeldFinding("gloo", (1.5, 3.0)), HeldFinding("hot"))
    with closing(_open(tmp_path / "h")) as store:
        store.write([run(2, findings=found)], [])
        (read_again,) = store.runs()
    assert read_again.findings == found


def test_a_row_changed_by_hand_is_left_out(tmp_path: Path) -> None:
    """A row that no longer makes sense does not hide the others."""
    with closing(_open(tmp_path / "h")) as store:
        store.write([run(2), run(4)], [])
        store.connection.execute("UPDATE run SET gpus = 'two' WHERE uuids NOT LIKE '%GPU-02%'")
        assert _keys(store.runs()) == [run(4).key]


def test_to_run_refuses_what_of_run_did_not_make() -> None:
    """A row with text where a number belongs is an error of its own kind."""
    cells = list(of_run(run(2)))
    with pytest.raises(ValueError, match="float"):
        to_run([*cells[:8], "soon", *cells[9:]])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be made is one sentence with the path and the reason."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(HistoryError, match="cannot be written"):
        _open(blocked / "history.sqlite")


_WRITER = """
import sys, resource
from pathlib import Path
sys.path.insert(0, {project!r})
from gpumon.history.store import HistoryError, Store
from gpumon.model.settings import HistorySettings
from tests.history.made import run, WALL_S
store = Store.open(Path({path!r}), HistorySettings(), WALL_S)
if {limit}:
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
for number in range(100_000):
    try:
        store.write([run(8, number)], [])
    except HistoryError as error:
        print("refused", number, error, flush=True)
        sys.exit(0)
    print("written", number, flush=True)
"""


def _writer(path: Path, limit: int = 0) -> subprocess.Popen[str]:
    code = _WRITER.format(project=str(PROJECT), path=str(path), limit=limit)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("after", [1, 40, 150])
def test_kill_9_loses_at_most_what_was_being_written(tmp_path: Path, after: int) -> None:
    """A writer killed at any moment leaves a sound file with every run it said it had written."""
    path = tmp_path / "h"
    process = _writer(path)
    assert process.stdout is not None
    said = -1
    for line in process.stdout:
        said = int(line.split()[1])
        if said >= after:
            process.kill()
            break
    process.wait()
    said = max([said, *(int(line.split()[1]) for line in process.stdout if line.startswith("written"))])
    with closing(_open(path)) as store:
        assert store.set_aside is None
        numbers = sorted(int(one.gpu_job[-10:]) for one in store.runs())
    assert len(numbers) in (said + 1, said + 2)
    assert numbers == list(range(len(numbers)))


def test_a_full_disk_loses_at_most_what_was_being_written(tmp_path: Path) -> None:
    """A write that the disk refuses is an error and nothing else: what was there before is there, and it goes on."""
    path = tmp_path / "h"
    process = _writer(path, limit=300_000)
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    assert process.wait() == 0
    assert lines[-1].startswith("refused")
    written = [int(line.split()[1]) for line in lines if line.startswith("written")]
    assert len(written) >= 10
    with closing(_open(path)) as store:
        assert store.set_aside is None
        assert sorted(int(one.gpu_job[-10:]) for one in store.runs()) == written
        store.write([run(2)], [])


def test_the_salt_is_made_once_and_is_nobody_elses(tmp_path: Path) -> None:
    """The salt stays the same, is readable by its owner alone, and lies beside the history and not in it."""
    salt = salt_in(tmp_path)
    assert salt_in(tmp_path) == salt
    assert len(salt) == 64
    assert (tmp_path / "salt").stat().st_mode & 0o777 == 0o600
    assert salt_in(tmp_path / "other") != salt
