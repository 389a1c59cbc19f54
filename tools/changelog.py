"""Move `changelog.d/` into CHANGELOG.md at a release: `python -m tools.changelog 0.2.0 2026-12-01`.

A change is one file, ISSUE.KIND.md, written for the user. Kinds in the order they are shown: feature, fix, doc.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KINDS = {"feature": "New", "fix": "Fixed", "doc": "Documentation"}
_NAME = re.compile(r"(?P<issue>[0-9]+)\.(?P<kind>[a-z]+)\.md", re.ASCII)
_HEAD_LINES = 3  # title, empty line, what this file is


def changes(folder: Path) -> dict[str, list[str]]:
    """Return kind -> texts, by issue number.

    Raises: ValueError for a file whose name is not ISSUE.KIND.md, or that is empty.
    """
    found: dict[str, list[tuple[int, str]]] = {kind: [] for kind in KINDS}
    for file in folder.iterdir():
        match = _NAME.fullmatch(file.name)
        if match is None or match["kind"] not in KINDS:
            raise ValueError(f"{file.name} must be called ISSUE.KIND.md, KIND one of {', '.join(KINDS)}")
        text = file.read_text("utf-8").strip()
        if not text:
            raise ValueError(f"{file.name} is empty")
        found[match["kind"]].append((int(match["issue"]), text))
    return {kind: [text for _, text in sorted(entries)] for kind, entries in found.items() if entries}


def section(version: str, date: str, by_kind: dict[str, list[str]]) -> str:
    """Return the release's part of the change log."""
    parts = [f"## {version} ({date})"]
    for kind, texts in by_kind.items():
        parts += [f"### {KINDS[kind]}", *texts]
    return "\n\n".join(parts) + "\n"


def released(changelog: str, new: str) -> str:
    """Return the change log with the new release above the older ones."""
    lines = changelog.splitlines()
    head, older = lines[:_HEAD_LINES], lines[_HEAD_LINES:]
    return "\n".join([*head, "", new.rstrip("\n"), *older]) + "\n"


def main(version: str, date: str, project: Path) -> None:
    """Write CHANGELOG.md and remove what went into it."""
    folder, file = project / "changelog.d", project / "CHANGELOG.md"
    file.write_text(released(file.read_text("utf-8"), section(version, date, changes(folder))), "utf-8")
    for change in folder.iterdir():
        change.unlink()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(__file__).resolve().parents[1])
