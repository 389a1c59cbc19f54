"""Text as outputs may show it: what came from outside (a pod's name, a user's, a card's) bounded and printable.

A tenant chooses these names. They may be cut and a character replaced, never refused: one odd name must not cost a
scrape or a page. Escaping for a format is that format's business.
"""

from __future__ import annotations

import re

# Kubernetes names end at 253 and product names at 96 characters (NVML_DEVICE_NAME_V2_BUFFER_SIZE); 128 keeps every
# name seen in practice apart, and a page of 256 jobs below 1 MiB whatever tenants call themselves.
MAX_CHARACTERS = 128
_ELLIPSIS = "…"
# C0 but tab and newline, DEL, C1, and lone surrogates (undecodable bytes of a file name): parsers disagree on these.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def shown_text(value: str) -> str:
    """Return the text as it may be shown: unprintable characters replaced by U+FFFD, cut with an ellipsis."""
    if len(value) > MAX_CHARACTERS:
        value = value[: MAX_CHARACTERS - 1] + _ELLIPSIS
    return _UNPRINTABLE.sub(_REPLACEMENT, value)


def counted(number: int, noun: str) -> str:
    """Return "1 card", "8 cards", "2 processes"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"
