"""Argument types that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

from gpumon.config.values import seconds, show_seconds

# argparse keeps the type of add_subparsers() private.
Subparsers: TypeAlias = Any


def duration(low_s: float, high_s: float) -> Callable[[str], float]:
    """Return an argparse type for durations like 500ms, 30s, 5m between two bounds."""

    def parse(text: str) -> float:
        try:
            value = seconds(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
        if not low_s <= value <= high_s:
            raise argparse.ArgumentTypeError(
                f"{text!r} must be between {show_seconds(low_s)} and {show_seconds(high_s)}"
            )
        return value

    return parse
