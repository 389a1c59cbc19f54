"""The live page at `/`: packaged files put together once into one HTML document that loads nothing else.

The content security policy names the hashes of the one style and the one script, so nothing that a name on the page
might smuggle in could run. The page gets its figures from /api/v1/state and /api/v1/recent.
"""

from __future__ import annotations

import json

import gpumon
from gpumon.model.document import Document
from gpumon.model.verdict import TIME_STATES
from gpumon.ui import words
from gpumon.ui.style import packaged, policy_hash, style_sheet


def document() -> Document:
    """Return the page."""
    style, script = style_sheet(), _script()
    html = (
        packaged("page.html")
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        .replace("{{version}}", gpumon.__version__)
    )
    policy = (
        f"default-src 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Document(
        html.encode(),
        "text/html; charset=utf-8",
        {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"},
    )


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
    return f'"use strict";\n{"".join(lines)}{packaged("page_parts.js")}\n{packaged("page.js")}'
