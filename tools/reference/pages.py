"""Which page is written by what."""

from __future__ import annotations

from collections.abc import Callable

from tools.reference.configuration import configuration_page
from tools.reference.metrics import metrics_page

PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": configuration_page,
    "docs/metrics.md": metrics_page,
}
