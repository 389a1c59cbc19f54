"""The commands of docs/install.md, for tests that follow it word for word."""

from __future__ import annotations

import re

from tests.packaging.commands import PROJECT

_MARKED = re.compile(r"^<!-- tested: (\w+) -->\n```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(where: str) -> list[str]:
    """Return the marked blocks of one place: node, clone or image."""
    text = (PROJECT / "docs/install.md").read_text("utf-8")
    return [block for place, block in _MARKED.findall(text) if place == where]
