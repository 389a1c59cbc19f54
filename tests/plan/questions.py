"""Builds requests for the tests: a model, a card and a count, everything else as the command would set it."""

from __future__ import annotations

from typing import Any

from gpumon.plan.request import Request
from gpumon.plan.shapes import find_card, find_model


def ask(model: str, card: str, cards: int, **changes: Any) -> Request:
    """Return the request with the card's own links and the model's own sequence, unless changed."""
    shape, kind = find_model(model), find_card(card)
    fields: dict[str, Any] = {
        "sequence": shape.sequence,
        "p2p": kind.p2p,
        "nvlink": kind.nvlink_kind == "fabric",
        "pcie_generation": kind.pcie_generation,
        "pcie_lanes": kind.pcie_lanes,
    }
    return Request(shape, kind, cards, **(fields | changes))
