"""Which page is written by what."""

from __future__ import annotations

from collections.abc import Callable

from tools.reference.causes import causes_page, causes_page_zh
from tools.reference.configuration import configuration_page
from tools.reference.metrics import metrics_page

PAGES: dict[str, Callable[[], str]] = {
    "docs/causes.md": causes_page,
    "docs/causes.zh.md": causes_page_zh,
    "docs/configuration.md": configuration_page,
    "docs/metrics.md": metrics_page,
}
