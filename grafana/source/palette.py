"""Colours, words and value mappings: a class or a share of time looks and reads the same as on the live page."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from gpumon.model.findings import CATALOGUE
from gpumon.notify.texts import ENGLISH
from gpumon.ui.colours import CLASS_COLOURS, STATE_COLOURS
from gpumon.ui.words import CLASSES, HEADLINES, IN_TROUBLE, STATES

# Work below, waiting above: the order in which shares of time are stacked.
STATE_ORDER: tuple[str, ...] = ("compute", "overlap", "memory", "communication", "peer_wait", "host_wait", "idle")
# A timeline needs numbers: a class is drawn by its place here, from 1. Healthy ones first.
CLASS_ORDER: tuple[str, ...] = tuple(CLASS_COLOURS)
HELD_BACK = "|".join(name for name in CLASS_ORDER if name in IN_TROUBLE)

# For what is no class: the calm blue, and the two warm colours, of the same palette for colour blindness.
CALM = STATE_COLOURS["overlap"]
NOTICE = CLASS_COLOURS["host"]
BAD = CLASS_COLOURS["communication"]
# A job that has lost a card is in no class of its own, and is worse off than any.
LOST = "#C4162A"
LOST_VERDICT = "lost."
_LOST_WORDS = "A card of this job does not answer any more"

SEVERITY_COLOURS = {"critical": BAD, "warning": NOTICE, "info": CALM}


def class_words() -> dict[str, str]:
    """Return the word of each class, in CLASS_ORDER."""
    return {name: CLASSES[name].en for name in CLASS_ORDER}


def state_words() -> dict[str, str]:
    """Return the words of each share of time, in STATE_ORDER."""
    return {name: STATES[name].en for name in STATE_ORDER}


def class_codes() -> list[dashboard.ValueMapping]:
    """Return what a timeline shows for the numbers that `queries.class_code` gives."""
    codes = {str(number): (CLASSES[name].en, CLASS_COLOURS[name]) for number, name in enumerate(CLASS_ORDER, start=1)}
    return _texts({**codes, str(len(codes) + 1): ("card lost", LOST)})


def class_names() -> list[dashboard.ValueMapping]:
    """Return word and colour for the label `class`."""
    return _texts({name: (CLASSES[name].en, CLASS_COLOURS[name]) for name in CLASS_ORDER})


def verdicts() -> list[dashboard.ValueMapping]:
    """Return the sentence for each verdict, as `queries.verdict` names it."""
    sentences = {
        (key if "." in key else f"{key}."): (words.en, CLASS_COLOURS[key.partition(".")[0]])
        for key, words in HEADLINES.items()
    }
    return _texts({**sentences, LOST_VERDICT: (_LOST_WORDS, LOST)})


def severities() -> list[dashboard.ValueMapping]:
    """Return the colour of each severity."""
    return _texts({name: (name, colour) for name, colour in SEVERITY_COLOURS.items()})


def finding_titles() -> list[dashboard.ValueMapping]:
    """Return the title of each finding in the catalogue."""
    return _texts({row.finding: (row.title, None) for row in CATALOGUE})


def finding_advice() -> list[dashboard.ValueMapping]:
    """Return what to change first, for each finding in the catalogue."""
    return _texts({row.finding: (row.advice, None) for row in CATALOGUE})


def alert_advice() -> list[dashboard.ValueMapping]:
    """Return what to do first about each alert; one for a finding says so by its name."""
    return _texts({name: (text.advice, None) for name, text in ENGLISH.items()})


def waited_for() -> list[dashboard.ValueMapping]:
    """Return what 1 and 0 of a straggler mean."""
    return _texts({"1": ("the others wait for it", BAD), "0": ("keeps pace", CALM)})


def answers() -> list[dashboard.ValueMapping]:
    """Return what 1 and 0 of a card or driver mean."""
    return _texts({"1": ("answers", CALM), "0": ("does not answer", BAD)})


def yes_no(bad: int) -> list[dashboard.ValueMapping]:
    """Return yes and no for 1 and 0, the bad one of them in its colour."""
    return _texts({"1": ("yes", BAD if bad == 1 else CALM), "0": ("no", BAD if bad == 0 else CALM)})


def _texts(words: dict[str, tuple[str, str | None]]) -> list[dashboard.ValueMapping]:
    options = {
        value: dashboard.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(words.items())
    }
    return [dashboard.ValueMap(options=options)]


def merged(*mappings: list[dashboard.ValueMapping]) -> list[dashboard.ValueMapping]:
    """Return several mappings of texts as one."""
    options: dict[str, dashboard.ValueMappingResult] = {}
    for mapping in mappings:
        for part in mapping:
            assert isinstance(part, dashboard.ValueMap)
            options |= part.options
    return [dashboard.ValueMap(options=options)]
