"""Write the pages into the project."""

from __future__ import annotations

from pathlib import Path

from tools.reference.pages import PAGES

PROJECT = Path(__file__).resolve().parents[2]

for path, text in PAGES.items():
    (PROJECT / path).write_text(text(), "utf-8")
