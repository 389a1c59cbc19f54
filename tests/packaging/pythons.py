"""Other Pythons of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def python_of(version: str) -> str:
    """Return the path of a Python like "3.10": the system's, else pyenv's newest."""
    found = shutil.which(f"python{version}")
    if found and "shims" not in found:
        return found
    root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
    return str(max(Path(root, "versions").glob(f"{version}.*/bin/python")))
