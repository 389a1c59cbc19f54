"""Small procfs files read in one call. What cannot be read is a Fault; nothing here raises for a vanished process."""

from __future__ import annotations

import errno
import os

from gpumon.model.fault import Fault

_FAULTS = {
    errno.ENOENT: Fault.NOT_FOUND,
    errno.ESRCH: Fault.NOT_FOUND,  # the process ended while its file was open
    errno.ENOTDIR: Fault.NOT_FOUND,
    errno.EACCES: Fault.NO_PERMISSION,
    errno.EPERM: Fault.NO_PERMISSION,
}
SMALL = 8192


def fault_of(error: OSError) -> Fault:
    """Return why a file could not be read."""
    return _FAULTS.get(error.errno or 0, Fault.UNKNOWN)


def content(path: str, limit: int = SMALL) -> bytes | Fault:
    """Return at most `limit` bytes of a file.

    Read to its end: files of many records (mountinfo, net/dev, diskstats) come in pieces of less than a page, cut
    between records. A plain string path and raw calls, because this runs thousands of times a refresh and pathlib
    would double its cost.
    """
    descriptor = _opened(path)
    if isinstance(descriptor, Fault):
        return descriptor
    try:
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(descriptor, limit)):
            parts.append(part)
            limit -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    except OSError as error:
        return fault_of(error)
    finally:
        os.close(descriptor)


def record(path: str) -> bytes | Fault:
    """Return a file of one short record, such as a stat file, which one read gives whole."""
    descriptor = _opened(path)
    if isinstance(descriptor, Fault):
        return descriptor
    try:
        return os.read(descriptor, SMALL)
    except OSError as error:
        return fault_of(error)
    finally:
        os.close(descriptor)


def _opened(path: str) -> int | Fault:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return fault_of(error)


def text(path: str, limit: int = SMALL) -> str | Fault:
    """Return a file as text; bytes that are no UTF-8 become replacement characters."""
    raw = content(path, limit)
    return raw if isinstance(raw, Fault) else raw.decode("utf-8", "replace")


def number(path: str) -> float | Fault:
    """Return a file that holds one number."""
    raw = content(path, 64)
    if isinstance(raw, Fault):
        return raw
    try:
        return float(raw)
    except ValueError:
        return Fault.NO_DATA


def namespace(path: str) -> int:
    """Return the inode of a namespace link such as /proc/PID/ns/net, 0 when it may not be read."""
    inode = link(path).partition("[")[2].rstrip("]")
    return int(inode) if inode.isdigit() else 0


def link(path: str) -> str:
    """Return where a symbolic link points, "" when it may not be read."""
    try:
        return os.readlink(path)  # noqa: PTH115 - see `content`
    except OSError:
        return ""


def names(path: str) -> tuple[str, ...]:
    """Return the sorted names in a folder, none when it cannot be listed."""
    try:
        return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - see `content`
    except OSError:
        return ()
