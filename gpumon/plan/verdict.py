"""The answer in sentences: does it fit, which layout, how many cards, is it worth it, is NVLink the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpumon.plan.answer import Option, Plan, best, evaluate
from gpumon.plan.bandwidth import peer_rate, way
from gpumon.plan.layouts import Layout
from gpumon.plan.remedies import PLATFORM_CARD, WORTH_ADVISING, Remedy, remedies
from gpumon.plan.request import CARDS_PER_NODE, Strategy
from gpumon.plan.shapes import find_card
from gpumon.plan.signals import HEAVY_RATIO, Signal, signals
from gpumon.plan.units import number, percent, rate, size, throughput
from gpumon.plan.wording import Language, brief_name, cards_name, layout_name, path_name, say, say_shortly

# Efficiency from which all cards are worth their price, and below which not even half of them work.
WORTH_RATIO, PARTLY_RATIO = 0.8, 0.5
# A count gives less than a smaller one only if the difference is more than the model's own scatter.
SLOWER_RATIO = 0.97

Level = Literal["good", "caution", "bad"]


Subject = Literal["fit", "layout", "cards", "worth", "stream", "platform"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the verdict. short: the same in one or two words, for a page's tiles."""

    subject: Subject
    key: str
    level: Level
    short: str
    text: str


def verdict(answer: Plan, language: Language) -> tuple[Sentence, ...]:
    """Return the verdict, most important first."""
    sentences = [_fit(answer, language)]
    if answer.fits:
        sentences += [
            _layout(answer, language),
            _cards(answer, language),
            _worth(answer, language),
            *_stream(answer, language),
        ]
    else:
        if answer.request.strategy is not None and advised_against(answer):
            sentences.append(_layout(answer, language))
        sentences.append(_sentence("cards", "rent_none", "bad", language))
    sentences.append(_platform(answer, language))
    return tuple(sentences)


def advised_against(answer: Plan) -> bool:
    """Return whether the chosen layout waits for links too long to be advised, whatever was asked."""
    return answer.chosen.link_ratio > HEAVY_RATIO


def remedy_texts(answer: Plan, language: Language) -> tuple[tuple[Remedy, str], ...]:
    """Return each remedy with its sentence."""
    return tuple((remedy, _remedy_text(answer, remedy, language)) for remedy in remedies(answer))


def signal_text(answer: Plan, signal: Signal, language: Language) -> str:
    """Return what the signal says, as the end of a sentence."""
    share = signal.network_ratio if signal.key == "beyond_one_node" else signal.link_ratio
    return say(
        f"signal_{signal.key}",
        language,
        share=percent(share),
        states=size(answer.state_bytes),
        node=str(CARDS_PER_NODE),
    )


def _sentence(subject: Subject, key: str, level: Level, language: Language, **figures: str) -> Sentence:
    return Sentence(subject, key, level, say_shortly(key, language, **figures), say(key, language, **figures))


def _fit(answer: Plan, language: Language) -> Sentence:
    chosen, memory = answer.chosen, answer.chosen.memory
    trains = answer.request.trains
    figures = {
        "need": size(memory.total_bytes),
        "capacity": size(memory.capacity_bytes),
        "spare": size(memory.capacity_bytes - memory.total_bytes),
        "layout": layout_name(chosen.layout, trains, language),
        "brief": brief_name(chosen.layout, trains, language),
        "cards": f"{answer.request.cards}x {answer.request.card.name}",
    }
    if memory.tight:
        return _sentence("fit", "tight", "caution", language, **figures)
    if memory.fits:
        return _sentence("fit", "fits", "good", language, **figures)
    other = best(list(answer.options))
    if other.memory.fits:
        figures["other"] = layout_name(other.layout, trains, language)
        return _sentence("fit", "asked_does_not_fit", "bad", language, **figures)
    return _sentence("fit", "nothing_fits", "bad", language, **figures)


def _layout(answer: Plan, language: Language) -> Sentence:
    request, chosen = answer.request, answer.chosen
    other = best(list(answer.options))
    better = other.memory.fits and other.throughput.typical > chosen.throughput.typical * WORTH_ADVISING
    figures = {
        "layout": layout_name(chosen.layout, request.trains, language),
        "brief": brief_name(chosen.layout, request.trains, language),
        "other": layout_name(other.layout, request.trains, language),
        "better": brief_name(other.layout, request.trains, language),
        "change": change(other, chosen),
        "share": percent(chosen.link_ratio),
        "path": _slowest_way(answer, language),
    }
    key, level = _layout_key(advised_against(answer), request.strategy is not None, better)
    return _sentence("layout", key, level, language, **figures)


def _layout_key(heavy: bool, asked: bool, better: bool) -> tuple[str, Level]:
    if heavy and asked:
        return ("advised_other" if better else "advised_against"), "bad"
    if heavy:
        return "link_bound", "bad"
    if asked and better:
        return "asked_slower", "caution"
    return ("asked_layout" if asked else "layout"), "good"


def _slowest_way(answer: Plan, language: Language) -> str:
    """Return the way over which the chosen layout's longest exchange goes."""
    request, cards = answer.request, answer.chosen.layout.cards
    transfers = (*answer.chosen.traffic, *answer.chosen.prompt_traffic)
    peers = [transfer for transfer in transfers if transfer.way == "peers"]
    if not peers:
        return path_name("host_copy", language)
    longest = max(
        peers, key=lambda each: each.sent_bytes / peer_rate(request, each.members, cards).bytes_per_second.typical
    )
    return path_name(way(request, longest.members), language)


def _cards(answer: Plan, language: Language) -> Sentence:
    fitting = [point for point in answer.points if point.memory.fits]
    enough, asked = answer.recommended_cards, answer.request.cards
    assert enough is not None, "a plan that fits has a point that fits"
    smallest = min(point.layout.cards for point in fitting)
    value = max(fitting, key=lambda point: point.efficiency.typical)
    chosen = next(point for point in fitting if point.layout.cards == enough)
    names = {
        "most": cards_name(enough, language),
        "enough": cards_name(enough, language),
        "value": cards_name(value.layout.cards, language),
    }
    if asked == 1:
        return _sentence("cards", "rent_one", "good", language)
    if value.efficiency.typical > chosen.efficiency.typical * WORTH_ADVISING:
        return _sentence("cards", "rent_value", "caution", language, **names)
    if smallest == asked:
        return _sentence("cards", "rent_needed", "caution", language, **names)
    if enough < asked:
        return _sentence("cards", "rent_fewer", "caution", language, **names)
    return _sentence("cards", "rent_all", "good", language, **names)


def _worth(answer: Plan, language: Language) -> Sentence:
    chosen, cards = answer.chosen, answer.request.cards
    fewer = [
        point
        for point in answer.points
        if point.layout.cards < cards
        and point.memory.fits
        and chosen.throughput.typical < SLOWER_RATIO * point.throughput.typical
    ]
    if fewer:
        fastest = max(fewer, key=lambda point: point.throughput.typical)
        names = {"fewer": cards_name(fastest.layout.cards, language), "cards": cards_name(cards, language)}
        return _sentence("worth", "slower", "bad", language, **names)
    efficiency = chosen.efficiency
    figures = {
        "cards": cards_name(cards, language),
        "equal": f"{efficiency.typical * cards:.1f}",
        "paid": str(cards),
        "load": "" if answer.request.trains else say("load", language, requests=str(answer.request.concurrency)),
        "low": f"{efficiency.low * cards:.1f}",
        "high": f"{efficiency.high * cards:.1f}",
    }
    key, level = _worth_key(efficiency.typical, advised_against(answer))
    return _sentence("worth", key, level, language, **figures)


def _worth_key(efficiency: float, link_bound: bool) -> tuple[str, Level]:
    if efficiency >= WORTH_RATIO and not link_bound:
        return "worth", "good"
    if efficiency >= PARTLY_RATIO:
        return "partly_worth", "caution"
    return "not_worth", "bad"


def _stream(answer: Plan, language: Language) -> list[Sentence]:
    lone = answer.chosen.lone_tokens_per_second
    if lone is None:
        return []
    alone = evaluate(answer.request, Layout(Strategy.DDP, 1, 1)).lone_tokens_per_second
    assert alone is not None, "a served model has a rate for one user"
    figures = {"rate": number(lone), "alone": number(alone)}
    found = [_sentence("stream", "lone_stream", "good", language, **figures)]
    if answer.chosen.layout.strategy is Strategy.PP and answer.chosen.layout.group > 1:
        found.append(_sentence("stream", "layer_split", "caution", language))
    return found


def _platform(answer: Plan, language: Language) -> Sentence:
    applying = [signal for signal in signals(answer) if signal.applies]
    if not applying:
        return _sentence("platform", "platform_no", "good", language)
    joint = "; " if language == "en" else "；"
    reasons = joint.join(signal_text(answer, signal, language) for signal in applying)
    if answer.request.nvlink and answer.request.card.nvlink_kind == "fabric":
        return _sentence("platform", "platform_already", "good", language, reasons=reasons)
    return _sentence("platform", "platform_yes", "bad", language, reasons=reasons)


def _remedy_text(answer: Plan, remedy: Remedy, language: Language) -> str:
    option, chosen = remedy.option, answer.chosen
    links = answer.rate.bytes_per_second
    amount = str(remedy.amount)
    if remedy.key == "fewer_cards":
        amount = cards_name(answer.request.cards - remedy.amount, language)
    return say(
        remedy.key,
        language,
        amount=amount,
        layout=layout_name(option.layout, answer.request.trains, language),
        need=size(option.memory.total_bytes),
        rate=throughput(option.throughput.typical, answer.unit),
        before=f"{chosen.efficiency.typical:.2f}",
        after=f"{option.efficiency.typical:.2f}",
        change=change(option, chosen),
        card=find_card(PLATFORM_CARD).name,
        lone=number(option.lone_tokens_per_second or 0.0),
        low=rate(links.low),
        high=rate(links.high),
    )


def change(option: Option, chosen: Option) -> str:
    """Return how much more or less throughput an option has, in per cent."""
    return f"{option.throughput.typical / chosen.throughput.typical - 1:+.0%}"
