"""A unit file as its settings in order: systemd's format has repeated keys, which configparser refuses."""

from __future__ import annotations

from pathlib import Path


class Unit:
    """The settings of a unit file."""

    def __init__(self, file: Path) -> None:
        self.text = file.read_text("utf-8")
        self.settings = [
            (key, value)
            for line in self.text.splitlines()
            if line and line[0] not in "#["
            for key, _, value in [line.partition("=")]
        ]

    def all(self, key: str) -> list[str]:
        """Return every value of a setting."""
        return [value for name, value in self.settings if name == key]

    def one(self, key: str) -> str:
        """Return the value of a setting that is there once."""
        (value,) = self.all(key)
        return value
