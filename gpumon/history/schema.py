"""The tables of the history, by version. A released script never changes: a new version adds one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

# Script n takes a file of version n to version n + 1. The version stands in the file's user_version.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE run (
        gpu_job TEXT NOT NULL,
        uuids TEXT NOT NULL,
        workload TEXT NOT NULL,
        tenant TEXT NOT NULL,
        gpus TEXT NOT NULL,
        card TEXT NOT NULL,
        topology TEXT NOT NULL,
        strategy TEXT NOT NULL,
        begin_wall_s REAL NOT NULL,
        end_wall_s REAL NOT NULL,
        watched_s REAL NOT NULL,
        ended INTEGER NOT NULL,
        step_s REAL,
        step_spread REAL,
        throughput REAL,
        throughput_spread REAL,
        unit TEXT NOT NULL,
        micro_batch INTEGER NOT NULL,
        accumulation INTEGER NOT NULL,
        compute REAL,
        communication REAL,
        overlap REAL,
        memory REAL,
        host_wait REAL,
        peer_wait REAL,
        idle REAL,
        uncertainty REAL,
        share_own REAL,
        share_host REAL,
        share_exchange REAL,
        share_waiting REAL,
        share_hidden REAL,
        share_width REAL,
        energy_joules_per_step REAL,
        job_class TEXT NOT NULL,
        PRIMARY KEY (gpu_job, uuids)
    ) WITHOUT ROWID;
    CREATE INDEX run_by_end ON run (end_wall_s);
    CREATE INDEX run_by_tenant ON run (tenant);
    CREATE TABLE set_rate (
        uuids TEXT NOT NULL,
        link TEXT NOT NULL,
        gpus TEXT NOT NULL,
        bytes_per_second REAL NOT NULL,
        wall_s REAL NOT NULL,
        PRIMARY KEY (uuids, link)
    ) WITHOUT ROWID;
    """,
    # What is not known of older runs counts as none: their shares are judged as they were.
    "ALTER TABLE run ADD COLUMN share_memory REAL DEFAULT 0;",
    "ALTER TABLE run ADD COLUMN findings TEXT NOT NULL DEFAULT '';",
    # How many cards answered at once, and when that was last so.
    "CREATE TABLE cards_seen (cards INTEGER PRIMARY KEY, wall_s REAL NOT NULL);",
)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a file; 0 for an empty one."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring a file to the newest version, each step whole or not at all."""
    for number in range(version_of(connection), len(migrations)):
        connection.executescript(f"BEGIN IMMEDIATE; {migrations[number]} PRAGMA user_version = {number + 1}; COMMIT;")
