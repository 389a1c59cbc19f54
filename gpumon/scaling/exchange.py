"""The additive model of an exchange: a step is what one card needs, and what of the exchange nothing hides.

step(N) = alone + max(0, bytes(N) / rate(N) - hidden) + latency(N), with a ring's bytes(N) = 2 (N-1)/N x gradient bytes.
Fitted to published runs it explains half and full precision of one box with one rate (lambda_scaling.csv, BERT-large:
median error of the efficiency 0.016, benchmarks/scaling.py).
"""

from __future__ import annotations

import math

from gpumon.data import tables
from gpumon.data.tables import LinkPath


def ring_share(cards: int) -> float:
    """Return the bytes a card sends in a ring all-reduce, as a share of the reduced bytes; 0 for one card."""
    return 2.0 * (cards - 1) / cards


def implied_rate(alone_s: float, step_s: float, gradient_bytes: float, cards: int) -> float:
    """Return the rate that explains why a step on so many cards takes longer than on one, bytes per second.

    Infinite where it takes no longer.
    """
    longer_s = step_s - alone_s
    return ring_share(cards) * gradient_bytes / longer_s if longer_s > 0.0 else math.inf


def step_seconds(
    alone_s: float, gradient_bytes: float, cards: int, rate: float, *, hidden_s: float = 0.0, latency_s: float = 0.0
) -> float:
    """Return the length of a step whose cards each do what one card does alone, seconds."""
    exchange_s = ring_share(cards) * gradient_bytes / rate
    return alone_s + max(0.0, exchange_s - hidden_s) + latency_s


def break_even_rate(gradient_bytes: float, alone_s: float, cards: int = 2) -> float:
    """Return the rate above which so many cards do more than one: each doubles only if a step can hide the exchange.

    For two cards: gradient bytes over the single card's step.
    """
    return ring_share(cards) * gradient_bytes / ((cards - 1) * alone_s)


def latency_ratio(cards: int, of_cards: int, path: LinkPath) -> float:
    """Return what a small collective over `cards` costs, as a share of what it costs over `of_cards`."""
    row = next(row for row in tables.links().latency if row.path == path)

    def seconds(count: int) -> float:
        return row.pair_seconds + row.doubling_seconds * (math.log2(count) - 1) if count > 1 else 0.0

    return seconds(cards) / seconds(of_cards)
