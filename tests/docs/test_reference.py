"""The pages of docs/: those written from tables are current, links lead somewhere, commands that are shown exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpumon.cli.main import COMMANDS
from gpumon.config.settings import SETTINGS
from gpumon.model.metrics import METRICS
from tools.reference.pages import PAGES

PROJECT = Path(__file__).resolve().parents[2]
PROSE = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", PAGES)
def test_written_pages_are_current(path: str) -> None:
    """`make docs` would change nothing."""
    assert (PROJECT / path).read_text("utf-8") == PAGES[path](), "run `make docs`"


def test_every_setting_and_metric_has_its_row() -> None:
    """No setting and no metric is missing from its page."""
    configuration = PAGES["docs/configuration.md"]()
    assert [setting.variable for setting in SETTINGS if f"`{setting.variable}`" not in configuration] == []
    metrics = PAGES["docs/metrics.md"]()
    assert [metric.name for metric in METRICS if f"| `gpumon_{metric.name}` |" not in metrics] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Path) -> None:
    """Links to files of the project, and pages named in code quotes, exist."""
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    here = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in here if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.name))
def test_commands_that_are_shown_exist(page: Path) -> None:
    """`gpumon WORD` in a page is a command of the program, or an option."""
    words = re.findall(r"(?:^|[`\s/])gpumon ([a-z][a-z-]+)", "\n".join(_code(page.read_text("utf-8"))))
    assert [word for word in words if word not in COMMANDS] == []


def _code(text: str) -> list[str]:
    """Return what stands in code quotes and in indented or fenced blocks that start with a command."""
    fenced = re.findall(r"^```(?:sh|console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in fenced for line in block.splitlines()]
    return [line for line in lines if line.startswith("gpumon ")] + re.findall(r"`(gpumon [^`]+)`", text)
