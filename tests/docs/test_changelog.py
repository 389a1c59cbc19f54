"""The change log: fragments are named and filled, and a release moves them above the older ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.changelog import changes, main

PROJECT = Path(__file__).resolve().parents[2]


def test_the_projects_fragments_are_well_formed() -> None:
    """Every file of changelog.d has a name and a text that a release can take."""
    changes(PROJECT / "changelog.d")


def test_a_release_takes_the_fragments(tmp_path: Path) -> None:
    """Features come before fixes, by issue; the older release stays below; the folder is empty afterwards."""
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "12.fix.md").write_text("Mended.\n")
    (folder / "10.feature.md").write_text("Ten.\n")
    (folder / "9.feature.md").write_text("Nine,\nover two lines.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\nAbout.\n\n## 0.1.0 (2026-01-01)\n\nFirst.\n")
    main("0.2.0", "2026-02-02", tmp_path)
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changes\n\nAbout.\n\n## 0.2.0 (2026-02-02)\n\n### New\n\nNine,\nover two lines.\n\nTen.\n\n"
        "### Fixed\n\nMended.\n\n## 0.1.0 (2026-01-01)\n\nFirst.\n"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("name", "text"), [("7.bug.md", "x"), ("notes.md", "x"), ("7.fix.md", " \n")])
def test_a_fragment_that_nobody_would_read_is_refused(tmp_path: Path, name: str, text: str) -> None:
    """A wrong name or an empty text is an error that names the file."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name):
        changes(tmp_path)
