"""Words and colours: nothing is missing, nothing is idle, and colours stay apart for everybody."""

from __future__ import annotations

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from gpumon.model.verdict import DETAILS, TIME_STATES, JobClass
from gpumon.ui import words
from gpumon.ui.colours import CLASS_COLOURS, STATE_COLOURS


def test_every_verdict_has_a_sentence() -> None:
    """Each class and each detail of the contract has its headline in both languages."""
    wanted = {job_class.value for job_class in JobClass}
    wanted |= {f"{job_class.value}.{detail}" for job_class, details in DETAILS.items() for detail in details}
    assert wanted == set(words.HEADLINES)
    assert set(words.CLASSES) == set(words.URGENCY) == set(CLASS_COLOURS) == {job_class.value for job_class in JobClass}
    assert set(words.STATES) == set(STATE_COLOURS) == set(TIME_STATES)


def test_headline_of_an_unknown_detail_is_the_class_one() -> None:
    """A detail without a sentence of its own falls back to its class."""
    assert words.headline("host", "input") == words.HEADLINES["host.input"]
    assert words.headline("host", None) == words.HEADLINES["host"]
    assert words.headline("host", "something new") == words.HEADLINES["host"]


@pytest.mark.parametrize("group", [words.HEADLINES, words.CLASSES, words.STATES, words.PAGE])
def test_both_languages_say_the_same_thing(group: dict[str, words.Words]) -> None:
    """Each text exists in both languages and has as many places to fill."""
    for key, (english, chinese) in group.items():
        assert english, key
        assert chinese, key
        assert english.count("{") == chinese.count("{"), key


def test_the_page_uses_each_of_its_words() -> None:
    """Every word the script or the markup asks for exists, and none is left over."""
    package = resources.files("gpumon.ui")
    script = "".join(package.joinpath(name).read_text("utf-8") for name in ("page_parts.js", "page.js"))
    markup = package.joinpath("page.html").read_text("utf-8")
    asked = set(re.findall(r'word\(\s*"(\w+)"', script)) | set(re.findall(r'data-word="(\w+)"', markup))
    computed = set(
        re.findall(r'"(link_in|link_out|fewer|enough|power|memory|temperature|utilization|clock|link|slice)"', script)
    )
    assert asked - {""} <= set(words.PAGE)
    assert set(words.PAGE) == asked | computed


# Machado, Oliveira, Fernandes 2009: full protanopia and deuteranopia, on linear RGB.
_SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def _lab(colour: str, sight: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(_SIGHT[sight] @ linear, 0, 1)
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ linear
        / np.array([0.9505, 1.0, 1.089])
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", _SIGHT)
@pytest.mark.parametrize("palette", [CLASS_COLOURS, STATE_COLOURS])
def test_colours_stay_apart(palette: dict[str, str], sight: str) -> None:
    """Any two colours of a palette differ by at least 15 in CIE Lab (2.3 is just noticeable), for every sight."""
    distances = {
        (a, b): float(np.linalg.norm(_lab(palette[a], sight) - _lab(palette[b], sight)))
        for a, b in itertools.combinations(palette, 2)
    }
    assert {pair: distance for pair, distance in distances.items() if distance < 15} == {}


def test_a_meaning_has_one_colour() -> None:
    """A class and the share of time that decides it have the same colour."""
    for name in ("compute", "communication", "memory", "idle"):
        assert CLASS_COLOURS[name] == STATE_COLOURS[name]
    assert CLASS_COLOURS["host"] == STATE_COLOURS["host_wait"]
