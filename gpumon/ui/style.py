"""The style sheet shared by the live page and the HTML report, and the hash by which their policies allow it."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from gpumon.ui.colours import CLASS_COLOURS, STATE_COLOURS


def packaged(name: str) -> str:
    """Return the text of a file that lies beside this one."""
    return resources.files("gpumon.ui").joinpath(name).read_text("utf-8")


def style_sheet() -> str:
    """Return page.css with the palette: as custom properties, and as classes for documents without a script."""
    palette = "".join(f"--class-{name}:{colour};" for name, colour in CLASS_COLOURS.items())
    palette += "".join(f"--state-{name}:{colour};" for name, colour in STATE_COLOURS.items())
    classes = "".join(f".c-{name}{{--colour:{colour}}}" for name, colour in CLASS_COLOURS.items())
    classes += "".join(f".s-{name}{{--colour:{colour};fill:{colour}}}" for name, colour in STATE_COLOURS.items())
    return f":root{{{palette}}}\n{classes}\n{packaged('page.css')}"


def policy_hash(text: str) -> str:
    """Return the source expression of a content security policy for this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
