"""The history's SQLite file: opened, checked, written, read, kept within its settings.

Every write is one transaction with a full sync, so a kill or a power cut loses at most what was being written. Used by
one thread at a time; other processes may read, and may forget a tenant, at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpumon.history import rows, schema
from gpumon.model.errors import GpumonError
from gpumon.model.past import Past, Run, SetRate
from gpumon.model.settings import HistorySettings

BUSY_S = 5.0  # another process may hold the file for a moment: `gpumon history --forget`
PAGE_BYTES = 4096
MOST_RUNS = 20_000
MOST_RATES = 1_000
# A card that was lost is missed over restarts of gpumon and of the node for so long; one that was taken out, no longer.
CARDS_MISSED_S = 7 * 86400.0
# Runs of one workload that a judgement may use, newest first; and rows that are read at all.
RUNS_OF_A_WORKLOAD = 32
RUNS_IN_MEMORY = 4_000
# When the file is full, this share of the oldest runs goes.
MAKE_ROOM = 0.1
FULL = "is full"  # of SQLite's message; Python 3.10 gives no error code
_WAL_BYTES = 4 << 20
# Damaged files that are kept beside the new one; more would fill the disk on a machine that damages files.
MOST_SET_ASIDE = 2

Key = tuple[str, tuple[str, ...]]  # of a run


class HistoryError(GpumonError):
    """The history cannot be opened, read or written: what, where, why."""


@dataclass(slots=True)
class Store:
    """An open history. `set_aside` is where a damaged file was moved to, None where there was none."""

    connection: sqlite3.Connection
    path: Path
    read_only: bool
    set_aside: Path | None = None

    @classmethod
    def open(cls, path: Path, settings: HistorySettings, now_wall_s: float) -> Store:
        """Open the file for writing, or make it; a damaged one is set aside and a new one made.

        Raises: HistoryError where it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(_for_writing(path, settings), path, False)
        except _NewerError as error:
            raise HistoryError(f"{path}: {error}") from None
        except (OSError, sqlite3.OperationalError) as error:
            raise HistoryError(f"{path}: cannot be written: {error}") from None
        except sqlite3.DatabaseError:
            pass  # no SQLite file, or pages that contradict each other
        moved = _set_aside(path, now_wall_s)
        try:
            return cls(_for_writing(path, settings), path, False, moved)
        except sqlite3.Error as error:
            raise HistoryError(f"{path}: was damaged, and no new one can be made: {error}") from None

    @classmethod
    def open_to_read(cls, path: Path) -> Store:
        """Open the file for reading only. Raises HistoryError where it does not exist or is no history."""
        last: Exception = OSError("does not exist")
        if path.exists():
            # On a read-only file system the log's index cannot be made: then the file is read as it stands.
            for mode in ("mode=ro", "mode=ro&immutable=1"):
                try:
                    connection = _connect(path, mode)
                    version = schema.version_of(connection)
                    connection.execute("SELECT count(*) FROM run").fetchone()
                except sqlite3.Error as error:
                    last = error
                else:
                    if version > len(schema.MIGRATIONS):
                        raise HistoryError(f"{path}: {_NewerError(version)}")
                    return cls(connection, path, True)
        raise HistoryError(f"{path}: cannot be read: {last}")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def write(
        self,
        runs: Iterable[Run],
        rates: Iterable[SetRate],
        known: Collection[Key] = (),
        *,
        cards: tuple[int, float] | None = None,
    ) -> frozenset[Key]:
        """Write runs and rates, each replacing what was known under its key, as one transaction.

        Args:
            cards: how many cards answered at once, and when (wall seconds).
            known: keys of runs that were written before. One that is no longer in the file was forgotten by another
                process, and is not written.
        Returns: the keys of those.
        Raises: HistoryError; then nothing of it was written.
        """
        offered, rate_rows = tuple(runs), [rows.of_rate(rate) for rate in rates]
        try:
            return self._write(offered, rate_rows, known, cards)
        except sqlite3.OperationalError as error:
            if FULL not in str(error) or not self._make_room():
                raise HistoryError(f"{self.path}: cannot be written: {error}") from None
            try:
                return self._write(offered, rate_rows, known, cards)
            except sqlite3.Error as again:
                raise HistoryError(f"{self.path}: cannot be written: {again}") from None
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be written: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self.connection:  # commits, or rolls back
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def _write(
        self,
        runs: Sequence[Run],
        rate_rows: list[tuple[rows.Cell, ...]],
        known: Collection[Key],
        cards: tuple[int, float] | None,
    ) -> frozenset[Key]:
        with self._transaction():
            gone = self._missing(run.key for run in runs if run.key in known)
            kept = [rows.of_run(run) for run in runs if run.key not in gone]
            self.connection.executemany(_insert("run", rows.COLUMNS), kept)
            self.connection.executemany(_insert("set_rate", rows.RATE_COLUMNS), rate_rows)
            if cards is not None:
                self.connection.execute(_insert("cards_seen", ("cards", "wall_s")), cards)
        return gone

    def _missing(self, keys: Iterable[Key]) -> frozenset[Key]:
        find = "SELECT 1 FROM run WHERE gpu_job = ? AND uuids = ?"
        return frozenset(
            key for key in keys if self.connection.execute(find, (key[0], " ".join(key[1]))).fetchone() is None
        )

    def missing(self, keys: Iterable[Key]) -> frozenset[Key]:
        """Return which of these runs are not in the file. Raises HistoryError."""
        try:
            return self._missing(keys)
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be read: {error}") from None

    def _make_room(self) -> bool:
        """Delete the oldest runs; return False where there are none, or where not even that can be written."""
        try:
            (count,) = self.connection.execute("SELECT count(*) FROM run").fetchone()
            if not count:
                return False
            self._delete_oldest(max(1, int(count * MAKE_ROOM)))
        except sqlite3.Error:
            return False
        return True

    def _delete_oldest(self, count: int) -> None:
        with self._transaction():
            self.connection.execute(
                "DELETE FROM run WHERE (gpu_job, uuids) IN "
                "(SELECT gpu_job, uuids FROM run ORDER BY end_wall_s LIMIT ?)",
                (count,),
            )

    def prune(self, settings: HistorySettings, now_wall_s: float) -> None:
        """Delete what is older than the retention or beyond the counts. Raises HistoryError."""
        try:
            with self._transaction():
                oldest = now_wall_s - settings.retention_s
                self.connection.execute("DELETE FROM run WHERE end_wall_s < ?", (oldest,))
                self.connection.execute("DELETE FROM set_rate WHERE wall_s < ?", (oldest,))
                self.connection.execute("DELETE FROM cards_seen WHERE wall_s < ?", (now_wall_s - CARDS_MISSED_S,))
                self.connection.execute(
                    "DELETE FROM set_rate WHERE (uuids, link) IN "
                    "(SELECT uuids, link FROM set_rate ORDER BY wall_s DESC LIMIT -1 OFFSET ?)",
                    (MOST_RATES,),
                )
            (count,) = self.connection.execute("SELECT count(*) FROM run").fetchone()
            if count > MOST_RUNS:
                self._delete_oldest(count - MOST_RUNS)
            self.connection.execute("PRAGMA incremental_vacuum")
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be written: {error}") from None

    def forget(self, tenant: str) -> int:
        """Delete a tenant's runs so that nothing of them stays in the file; return how many there were.

        Raises: HistoryError.
        """
        try:
            with self._transaction():
                deleted = self.connection.execute("DELETE FROM run WHERE tenant = ?", (tenant,)).rowcount
            self.connection.execute("PRAGMA incremental_vacuum")
            # The log still holds the pages as they were.
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be written: {error}") from None
        return deleted

    def runs(self) -> list[Run]:
        """Return all runs, newest first. Raises HistoryError."""
        return list(self._runs(MOST_RUNS))

    def rates(self) -> list[SetRate]:
        """Return what sets of cards have sustained, newest first. Raises HistoryError."""
        found = []
        for cells in self._select("set_rate", rows.RATE_COLUMNS, "wall_s", MOST_RATES):
            with suppress(ValueError, TypeError):  # a row somebody has changed by hand is no rate
                found.append(rows.to_rate(cells))
        return found

    def past(self) -> Past:
        """Return what a judgement may use, bounded. Raises HistoryError."""
        by_workload: dict[str, tuple[Run, ...]] = {}
        for run in self._runs(RUNS_IN_MEMORY):
            known = by_workload.get(run.workload, ())
            if run.workload and len(known) < RUNS_OF_A_WORKLOAD:
                by_workload[run.workload] = (*known, run)
        counts = self._select("cards_seen", ("cards",), "cards", 1)
        most_cards = int(counts[0][0] or 0) if counts else 0
        return Past(by_workload, {(rate.uuids, rate.link): rate for rate in self.rates()}, most_cards=most_cards)

    def changed_by_others(self) -> int:
        """Return a number that is another one after another process has written. Raises HistoryError."""
        try:
            (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be read: {error}") from None
        return int(version)

    def _runs(self, most: int) -> Iterator[Run]:
        for cells in self._select("run", rows.COLUMNS, "end_wall_s", most):
            with suppress(ValueError, TypeError):  # a row somebody has changed by hand is no run
                yield rows.to_run(cells)

    def _select(self, table: str, columns: tuple[str, ...], newest: str, most: int) -> list[tuple[rows.Cell, ...]]:
        try:
            return self.connection.execute(
                f"SELECT {', '.join(columns)} FROM {table} ORDER BY {newest} DESC LIMIT ?", (most,)
            ).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: cannot be read: {error}") from None


class _NewerError(Exception):
    """The file was written by a newer gpumon."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"is of version {version}, and this gpumon knows {len(schema.MIGRATIONS)}: it was written by a newer one; "
            "install that again, or move the file away"
        )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    # The keeper's thread opens and uses it; it may be closed by the one that stops the daemon.
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _for_writing(path: Path, settings: HistorySettings) -> sqlite3.Connection:
    fresh = not path.exists()
    connection = _connect(path, "mode=rwc")
    try:
        if fresh:
            path.chmod(0o640)
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute(f"PRAGMA max_page_count = {settings.most_bytes // PAGE_BYTES}")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        version = schema.version_of(connection)
        if version > len(schema.MIGRATIONS):
            raise _NewerError(version)
        schema.migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path, now_wall_s: float) -> Path:
    """Move a damaged file and its log away; return where it lies. Raises HistoryError."""
    aside = path.with_name(f"{path.name}.damaged-{int(now_wall_s)}")
    try:
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        kept = sorted(path.parent.glob(f"{path.name}.damaged-*"), reverse=True)
        for old in kept[MOST_SET_ASIDE:]:
            old.unlink()
    except OSError as error:
        raise HistoryError(f"{path}: is damaged and cannot be moved away: {error}") from None
    return aside


def _insert(table: str, columns: tuple[str, ...]) -> str:
    places = ", ".join("?" for _ in columns)
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({places})"


def read(path: Path) -> tuple[list[Run], list[SetRate]]:
    """Return all runs and rates of a file, newest first. Raises HistoryError."""
    with closing(Store.open_to_read(path)) as store:
        return store.runs(), store.rates()
