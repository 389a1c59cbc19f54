"""Columns of whole numbers as bytes that compress well: small deltas, equal widths, byte planes side by side."""

from __future__ import annotations

import numpy as np

from gpumon.recording.grid import Codes

_WIDTHS: tuple[np.dtype[np.signedinteger], ...] = tuple(np.dtype(f"<i{width}") for width in (1, 2, 4, 8))


def pack(codes: Codes, *, delta: bool = False) -> bytes:
    """Return the numbers as one width byte and their byte planes, lowest first. `delta` stores differences."""
    values = np.diff(codes, prepend=0) if delta and codes.size else codes
    top = int(np.abs(values).max()) if values.size else 0
    dtype = next(dtype for dtype in _WIDTHS if top <= np.iinfo(dtype).max)
    planes = values.astype(dtype).view(np.uint8).reshape(-1, dtype.itemsize).T
    head = bytes([dtype.itemsize | (0x80 if delta else 0)])
    return head + bytes(planes.tobytes())


def unpack(data: bytes) -> Codes:
    """Return the numbers that `pack` stored. Raises ValueError for bytes it did not make."""
    if not data or (data[0] & 0x7F) not in (1, 2, 4, 8):
        raise ValueError("no column")
    width = data[0] & 0x7F
    planes = np.frombuffer(data, np.uint8, offset=1).reshape(width, -1)
    values = np.ascontiguousarray(planes.T).view(f"<i{width}").reshape(-1).astype(np.int64)
    return np.cumsum(values) if data[0] & 0x80 else values
