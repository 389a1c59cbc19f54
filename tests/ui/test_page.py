"""The page as a file: small, whole, and locked by its own policy."""

from __future__ import annotations

import base64
import hashlib
import re

from gpumon.ui import page


def test_one_small_document() -> None:
    """The page is one HTML document under 200 KB without a placeholder left and without an outside address."""
    document = page.document()
    text = document.body.decode()
    assert document.content_type == "text/html; charset=utf-8"
    assert len(document.body) < 200_000
    assert "{{" not in text
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text)) - {"http://www.w3.org/2000/svg"}  # a name space
    assert addresses == set()
    assert not re.search(r"<(link|script|img|iframe)[^>]+(src|href)=\"(?!data:)", text)


def test_policy_names_exactly_this_style_and_script() -> None:
    """The policy allows nothing but the one style and the one script, by hash, and asking the own server."""
    document = page.document()
    text = document.body.decode()
    policy = dict(part.strip().split(" ", 1) for part in document.headers["Content-Security-Policy"].split(";"))

    def digest(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(found) == 1
        return f"'sha256-{base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()}'"

    assert policy == {
        "default-src": "'none'",
        "style-src": digest("style"),
        "script-src": digest("script"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_no_markup_is_made_from_text() -> None:
    """The script never turns a string into markup or code."""
    script = re.findall(r"<script>(.*?)</script>", page.document().body.decode(), re.DOTALL)[0]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)
