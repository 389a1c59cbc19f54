"""Write the rule files and the runbooks into the project."""

from __future__ import annotations

from pathlib import Path

from tools.alerting.files import FILES

PROJECT = Path(__file__).resolve().parents[2]

for path, text in FILES.items():
    (PROJECT / path).write_text(text(), "utf-8")
