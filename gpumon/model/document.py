"""A rendered answer: what `ui` hands to the HTTP server without either knowing the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes to be sent as they are, and how to call them."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)  # beyond those every answer carries
