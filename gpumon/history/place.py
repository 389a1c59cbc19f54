"""Where the history lies, and the salt that makes its workload names useless elsewhere."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from gpumon.model.settings import HistorySettings

STATE_FOLDER = "/var/lib/gpumon"
_SALT, _SALT_BYTES = "salt", 32


def folder_of(settings: HistorySettings, environ: Mapping[str, str]) -> Path:
    """Return the folder: the configured one, else what the service manager gave, else the usual place."""
    return Path(_given(settings, environ) or STATE_FOLDER)


def has_folder(settings: HistorySettings, environ: Mapping[str, str]) -> bool:
    """Return True where somebody has said which folder it is."""
    return bool(_given(settings, environ))


def _given(settings: HistorySettings, environ: Mapping[str, str]) -> str:
    return settings.folder or environ.get("STATE_DIRECTORY", "").partition(":")[0]


def file_in(folder: Path, *, simulated: bool = False) -> Path:
    """Return the history's file. A simulated node has its own, so that no real job is compared with an invented one."""
    return folder / ("history-simulated.sqlite" if simulated else "history.sqlite")


def known_salt(folder: Path) -> str:
    """Return the installation's salt, "" where there is none or where it may not be read."""
    try:
        known = (folder / _SALT).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return known if len(known) == 2 * _SALT_BYTES else ""


def salt_in(folder: Path) -> str:
    """Return the installation's salt, made at the first call.

    It lies beside the history and not in it: a copy of the file alone tells nothing about command lines. Where it
    cannot be kept, one of this process's life is returned: its own runs can still be compared.
    """
    path = folder / _SALT
    known = known_salt(folder)
    if known:
        return known
    made = secrets.token_hex(_SALT_BYTES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(made + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        return made
    return made
