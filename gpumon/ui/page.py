"""The live page at `/`: three packaged files put together once into one HTML document that loads nothing else.

The content security policy names the hashes of the one style and the one script, so nothing that a name on the page
might smuggle in could run. The page gets its figures from /api/v1/state and /api/v1/recent.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources

import gpumon
from gpumon.model.document import Document
from gpumon.model.verdict import TIME_STATES
from gpumon.ui import words
from gpumon.ui.colours import CLASS_COLOURS, STATE_COLOURS


def document() -> Document:
    """Return the page."""
    style, script = _style(), _script()
    html = (
        _packaged("page.html")
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        .replace("{{version}}", gpumon.__version__)
    )
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Document(
        html.encode(),
        "text/html; charset=utf-8",
        {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"},
    )


def _style() -> str:
    """Return the style sheet with the palette of `colours` as custom properties."""
    palette = "".join(f"--class-{name}:{colour};" for name, colour in CLASS_COLOURS.items())
    palette += "".join(f"--state-{name}:{colour};" for name, colour in STATE_COLOURS.items())
    return f":root{{{palette}}}\n{_packaged('page.css')}"


def _script() -> str:
    """Return the script with the words it speaks."""
    texts = {
        "headlines": words.HEADLINES,
        "classes": words.CLASSES,
        "states": words.STATES,
        "page": words.PAGE,
    }
    spoken = {
        language: {group: {key: text[at] for key, text in entries.items()} for group, entries in texts.items()}
        for at, language in enumerate(("en", "zh"))
    }
    constants = {
        "WORDS": spoken,
        "URGENCY": words.URGENCY,
        "IN_TROUBLE": sorted(words.IN_TROUBLE),
        "STATES": TIME_STATES,
    }
    lines = (f"const {name} = {json.dumps(value, ensure_ascii=False)};\n" for name, value in constants.items())
    return f'"use strict";\n{"".join(lines)}{_packaged("page.js")}'


def _packaged(name: str) -> str:
    return resources.files("gpumon.ui").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
