"""Two pictures as inline SVG: what one gets for the cards one pays, and what fills the fullest card."""

from __future__ import annotations

from html import escape

from gpumon.plan.answer import Option, Plan
from gpumon.plan.units import size
from gpumon.plan.verdict import PARTLY_RATIO, WORTH_RATIO
from gpumon.plan.wording import Language

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 18, 46
COLOURS = {"good": "#1f8a4c", "caution": "#c77f00", "bad": "#c0392b", "ideal": "#8a94a6", "none": "#d5dae3"}
# Parts of a card's memory, in the order they are stacked.
PARTS = (
    ("weights_bytes", "#2f5d9b", "weights", "权重"),
    ("gradients_bytes", "#5b8fd0", "gradients", "梯度"),
    ("optimizer_bytes", "#9dbfe8", "optimizer", "优化器"),
    ("activations_bytes", "#e0a458", "activations", "激活"),
    ("kv_cache_bytes", "#b565a7", "KV cache", "KV 缓存"),
    ("buffers_bytes", "#7f8c8d", "buffers", "缓冲"),
    ("runtime_bytes", "#4d5656", "context", "上下文"),
)


def scaling_chart(answer: Plan, language: Language) -> str:
    """Return bars: the work of each count of cards, in cards; the dashed steps are what one pays for."""
    points = answer.points
    top = float(max(point.layout.cards for point in points))
    band = (WIDTH - LEFT - RIGHT) / len(points)
    shapes = [_axis(top, language)]
    for index, point in enumerate(points):
        advised = point.layout.cards == answer.recommended_cards
        shapes.append(_bar(point, x=LEFT + index * band, band=band, top=top, advised=advised, language=language))
    label = "work of N cards, in cards" if language == "en" else "N 张卡的算力（折合张数）"
    return _svg(label, HEIGHT, "".join(shapes))


def memory_chart(answer: Plan, language: Language) -> str:
    """Return one stacked bar of the fullest card, with a line where the card ends."""
    memory = answer.chosen.memory
    scale = (WIDTH - LEFT - RIGHT) / max(memory.total_bytes, memory.capacity_bytes)
    shapes, legend, x, place = [], [], float(LEFT), float(LEFT)
    for field, colour, english, chinese in PARTS:
        value = float(getattr(memory, field))
        if value <= 0:
            continue
        shapes.append(_rect(x, 40, value * scale, 44, colour))
        x += value * scale
        name = f"{english if language == 'en' else chinese} {size(value)}"
        legend.append(_rect(place, 104, 11, 11, colour) + _text(place + 16, 114, name, "start"))
        place += 26 + 6.9 * sum(2 if ord(sign) > 0x2E7F else 1 for sign in name)
        if place > WIDTH - 150:
            break
    end = LEFT + memory.capacity_bytes * scale
    has = "the card has" if language == "en" else "卡上有"
    anchor = "end" if end > WIDTH / 2 else "start"
    shapes.append(f'<line x1="{end:.1f}" x2="{end:.1f}" y1="30" y2="92" stroke="#1c2430" stroke-width="3"/>')
    shapes.append(_text(end, 22, f"{has} {size(memory.capacity_bytes)}", anchor, bold=True))
    label = "memory of the fullest card" if language == "en" else "最满的一张卡的显存"
    return _svg(label, 124, "".join(shapes + legend))


def level_of(option: Option) -> str:
    """Return how good an option's efficiency is, as the verdict judges it."""
    if option.efficiency.typical >= WORTH_RATIO:
        return "good"
    return "caution" if option.efficiency.typical >= PARTLY_RATIO else "bad"


def _equal(option: Option) -> float:
    return option.efficiency.typical * option.layout.cards


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def _axis(top: float, language: Language) -> str:
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256) if top / step <= 8)
    lines = []
    for value in range(0, int(top) + 1, step):
        y = _y(value, top)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e7eaf0"/>')
        lines.append(_text(LEFT - 8, y + 4, str(value), "end"))
    caption = "cards you pay for" if language == "en" else "付费的卡数"
    return "".join(lines) + _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, caption, "middle")


def _bar(point: Option, *, x: float, band: float, top: float, advised: bool, language: Language) -> str:
    cards, middle, width = point.layout.cards, x + band / 2, band * 0.62
    base = HEIGHT - BOTTOM
    ideal = _y(cards, top)
    shapes = [
        f'<line x1="{x + 2:.1f}" x2="{x + band - 2:.1f}" y1="{ideal:.1f}" y2="{ideal:.1f}" '
        f'stroke="{COLOURS["ideal"]}" stroke-width="2" stroke-dasharray="5 3"/>',
        _text(middle, base + 17, str(cards), "middle", bold=advised),
    ]
    if not point.memory.fits:
        word = "no fit" if language == "en" else "装不下"
        shapes.append(_rect(x + (band - width) / 2, ideal, width, base - ideal, COLOURS["none"]))
        shapes.append(_text(middle, base - 6, word, "middle"))
        return "".join(shapes)
    height = _y(_equal(point), top)
    shapes.append(_rect(x + (band - width) / 2, height, width, base - height, COLOURS[level_of(point)]))
    low, high = (_y(min(top, share * cards), top) for share in (point.efficiency.low, point.efficiency.high))
    shapes.append(
        f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{high:.1f}" y2="{low:.1f}" stroke="#1c2430"/>'
        f'<line x1="{middle - 5:.1f}" x2="{middle + 5:.1f}" y1="{high:.1f}" y2="{high:.1f}" stroke="#1c2430"/>'
        f'<line x1="{middle - 5:.1f}" x2="{middle + 5:.1f}" y1="{low:.1f}" y2="{low:.1f}" stroke="#1c2430"/>'
    )
    inside = base - height > 20
    colour = "#ffffff" if inside else "#1c2430"
    shapes.append(
        _text(middle, base - 6 if inside else height - 6, f"{_equal(point):.1f}", "middle", bold=True, colour=colour)
    )
    return "".join(shapes)


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}" fill="{colour}"/>'
    )


def _text(x: float, y: float, word: str, anchor: str, *, bold: bool = False, colour: str = "#1c2430") -> str:
    weight = ' font-weight="700"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(word)}</text>'


def _svg(label: str, height: int, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" '
        f'font-size="13" font-family="inherit">{content}</svg>'
    )
