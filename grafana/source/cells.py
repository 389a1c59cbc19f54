"""How a column of a table shows its values: properties for `panels.Column`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.models import dashboard

from grafana.source.panels import FULLNESS, thresholds
from grafana.source.units import SHARE


def as_unit(unit: str, decimals: int | None = None) -> dict[str, object]:
    """Show in a unit."""
    return {"unit": unit} if decimals is None else {"unit": unit, "decimals": decimals}


def as_gauge(unit: str = SHARE, high: float = 1.0, steps: Sequence[tuple[float, str]] = FULLNESS) -> dict[str, object]:
    """Draw a bar from 0 to `high` in the cell."""
    return {
        "unit": unit,
        "decimals": 0,
        "min": 0,
        "max": high,
        "custom.cellOptions": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"},
        "thresholds": thresholds(*steps).build().to_json(),
    }


def as_signal(mappings: list[dashboard.ValueMapping]) -> dict[str, object]:
    """Fill the cell with the colour of its mapping."""
    return {
        "mappings": [mapping.to_json() for mapping in mappings],
        "custom.cellOptions": {"type": "color-background", "mode": "basic"},
    }


def as_word(mappings: list[dashboard.ValueMapping]) -> dict[str, object]:
    """Show the mapped word in its colour."""
    return {"mappings": [mapping.to_json() for mapping in mappings], "custom.cellOptions": {"type": "color-text"}}


def as_text(mappings: list[dashboard.ValueMapping]) -> dict[str, object]:
    """Show the mapped words, over several lines where they need them."""
    return {
        "mappings": [mapping.to_json() for mapping in mappings],
        # Grafana 11 to 12.1 look for the first, later ones for the second; 10 cuts the text. Rows grow with the text only
        # where dynamicHeight says so: the height is else measured on the value before its mapping.
        "custom.cellOptions": {"type": "auto", "wrapText": True, "dynamicHeight": True},
        "custom.wrapText": True,
    }


def of_width(pixels: int, properties: Mapping[str, object] | None = None) -> dict[str, object]:
    """Fix a column's width."""
    return {**(properties or {}), "custom.width": pixels}


def linked(title: str, url: str, properties: Mapping[str, object] | None = None) -> dict[str, object]:
    """Make the cells of a column a link."""
    return {**(properties or {}), "links": [{"title": title, "url": url, "targetBlank": False}]}
