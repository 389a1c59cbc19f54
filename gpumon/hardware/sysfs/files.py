"""Small sysfs files as text, numbers and link targets. What cannot be read is None, never an exception."""

from __future__ import annotations

import os
from pathlib import Path

# The kernel gives a sysfs file in one page and one read; opening it as a stream costs three times as much.
_PAGE_BYTES = 4096


def text(path: Path) -> str | None:
    """Return the file's text without surrounding blanks, None when it cannot be read.

    A device that is being removed or has fallen off the bus answers with ENODEV or EIO: both are OSError.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(file, _PAGE_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(file)


def number(path: Path) -> int | None:
    """Return the file's number (decimal or 0x hexadecimal), None when absent or not a number."""
    content = text(path)
    if content is None:
        return None
    try:
        return int(content, 0)
    except ValueError:
        return None


def target_name(path: Path) -> str:
    """Return the last part of where a link points, "" when there is none (an unbound device has no `driver`)."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def names(path: Path) -> tuple[str, ...] | None:
    """Return the sorted names in a folder, None when it cannot be listed."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError:
        return None
