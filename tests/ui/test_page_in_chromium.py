"""The page in a real browser: right in every state of a node, quiet on the console, usable without eyes or mouse."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from gpumon.model.view import NodeView
from tests import views
from tests.ui.chromium import Browser, browser
from tests.ui.serving import serving

pytestmark = pytest.mark.tools

SIMULATED = views.geforce()
SIMULATED = dataclasses.replace(SIMULATED, node=dataclasses.replace(SIMULATED.node, simulated=True))
STRAGGLER = dataclasses.replace(views.geforce(), jobs=(views.straggling(views.geforce().jobs[0], 3),))
HOT = dataclasses.replace(views.geforce(), jobs=(views.straggling(views.geforce().jobs[0], 3, views.HOT),))
DRAWN = "document.getElementById('cards-up').textContent + document.getElementById('notices').textContent"

# How many changes a refresh with the same figures makes below `main`.
COUNT_CHANGES = """new Promise((done) => {
    let count = 0;
    const watch = new MutationObserver((changes) => { count += changes.length; });
    watch.observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
    refreshState().then(() => setTimeout(() => { watch.disconnect(); done(count); }, 50));
})"""
FOCUSED = "document.activeElement.className || document.activeElement.id || document.activeElement.tagName"


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def chromium(shared_browser: Browser) -> Iterator[Browser]:
    """A tab in English, whose console must stay silent."""
    shared_browser.problems.clear()
    yield shared_browser
    assert shared_browser.problems == []


def text(chromium: Browser, selector: str) -> str:
    found: str = chromium.run(f"document.querySelector({selector!r}).innerText")
    return found


@pytest.mark.parametrize(
    ("view", "heading", "notice"),
    [
        (views.geforce(), "Waits for data between cards: each card's own link is the limit", ""),
        (views.crowded(), "12 of 20 jobs need attention", ""),
        (views.no_jobs(), "No job uses these cards.", ""),
        (views.lost_card(), "A card of this job does not answer: GPU 5", "GPU 5 does not answer (lost)."),
        (views.no_driver(), "", "No NVIDIA driver answers (driver_not_loaded)."),
        (SIMULATED, "Waits for data", "SIMULATED NODE: these cards and jobs do not exist."),
        (STRAGGLER, "The other cards wait for GPU 3", ""),
        (HOT, "Slowed down by heat (GPU 3; the others wait)", ""),
        (
            views.node_view((views.card_view(0),), (views.job_view("c.1", (0,), views.UNKNOWN),)),
            "Not enough evidence yet",
            "",
        ),
        (
            views.node_view(
                (views.card_view(0), views.card_view(1)),
                (views.job_view("c.1", (0,), views.UNKNOWN), views.job_view("c.2", (1,), views.COMPUTE)),
            ),
            "1 of 2 jobs cannot be judged yet",
            "",
        ),
        (views.mig(), "Waits for data", ""),
        (views.sxm(4), "4 of 4 jobs need attention", ""),
        (
            views.node_view((views.card_view(0),), (views.job_view("c.1", (0,), views.COMPUTE),)),
            "No job is held back.",
            "",
        ),
    ],
)
@pytest.mark.parametrize("width", [1280, 390])
def test_says_what_is_wrong(chromium: Browser, view: NodeView, heading: str, notice: str, width: int) -> None:
    """The first line says what is wrong with the node or its jobs; nothing runs over the edge of desk or phone."""
    with serving(view) as served:
        chromium.open(served.url, width=width, mobile=width < 500)
        chromium.until(DRAWN)
        assert text(chromium, "#answer").startswith(heading)
        assert text(chromium, "#notices").startswith(notice)
        assert len(text(chromium, "#notices")) == 0 or notice
        assert chromium.run("document.querySelectorAll('#jobs > details').length") == len(view.jobs)
        assert chromium.run("document.querySelectorAll('.tile').length") == len(view.cards)
        assert chromium.run("document.documentElement.scrollWidth") <= width


def test_trouble_is_unfolded_and_well_is_folded(chromium: Browser) -> None:
    """Jobs in trouble come first and show evidence and advice; the healthy ones are a line each, last."""
    with serving(views.crowded()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        classes = chromium.run("[...document.querySelectorAll('#jobs .line .chip')].map((chip) => chip.textContent)")
        assert classes == [name for name in ("communication", "host", "idle", "unknown", "compute") for _ in range(4)]
        opened = chromium.run("[...document.querySelectorAll('#jobs > details')].map((job) => job.open)")
        assert opened == [True] * 4 + [False] * 16
        first = text(chromium, "#jobs > details")
        for part in ("power falls by 276 W", "Accumulate gradients", "sending 48 %", "93 % sure", "Last 15 minutes"):
            assert part in first


def test_hostile_names_are_shown_as_text(chromium: Browser) -> None:
    """Markup in a name is shown, not run; 500 characters are cut; nothing runs over its box."""
    with serving(views.hostile()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        chromium.run("for (const job of document.querySelectorAll('#jobs > details')) job.open = true")
        shown = chromium.run("document.getElementById('jobs').textContent")
        assert "<script>alert(1)</script>" in shown
        assert "x" * 60 + "…" in shown
        assert "x" * 61 not in shown
        assert chromium.run("document.querySelectorAll('main script, main img').length") == 0
        assert chromium.run("document.documentElement.scrollWidth") <= 1280


def test_speaks_chinese(chromium: Browser) -> None:
    """The button changes every text, and the choice outlives a reload."""
    with serving(views.geforce()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        chromium.run("document.getElementById('language').click()")
        assert text(chromium, "#answer") == "在等卡间数据：瓶颈是每张卡自己的链路"
        assert "先累积 4 个以上微批次" in text(chromium, "#jobs")
        assert chromium.run("document.documentElement.lang") == "zh-CN"
        chromium.open(served.url)
        chromium.until(DRAWN)
        assert text(chromium, "#jobs-title") == "任务"
        chromium.run("document.getElementById('language').click()")


def test_works_with_the_keyboard(chromium: Browser) -> None:
    """Tab reaches skip link, language, and jobs in order; Enter folds a job, and the next tick leaves it folded."""
    with serving(views.geforce()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        seen = []
        for _ in range(3):
            chromium.press("Tab", 9)
            seen.append(chromium.run(FOCUSED))
        assert seen == ["skip", "language", "SUMMARY"]
        chromium.press("Enter", 13)
        chromium.until("!document.querySelector('#jobs > details').open")
        chromium.run("refreshState()")
        assert not chromium.run("document.querySelector('#jobs > details').open")
        assert chromium.run("document.activeElement.tagName") == "SUMMARY"


def test_can_be_listened_to(chromium: Browser) -> None:
    """Landmarks, headings and bars have names for a screen reader; changes are announced, unchanged text is not."""
    with serving(views.lost_card()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        nodes = chromium.call("Accessibility.getFullAXTree")["nodes"]
        said = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
        assert ("alert", "") in said
        assert ("heading", "A card of this job does not answer: GPU 5") in said
        assert ("region", "Jobs") in said or ("region", "JOBS") in said
        images = [name for role, name in said if role == "image"]
        assert images
        assert all(images)
        assert any("computing 35 %, sending 48 %" in name for name in images)
        assert chromium.run(COUNT_CHANGES) == 0


def test_follows_the_node(chromium: Browser) -> None:
    """A new tick changes the page: a card goes, a job ends, and what is gone leaves no trace."""
    with serving(views.geforce(2)) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        view = views.geforce(2)
        served.show(dataclasses.replace(view, jobs=view.jobs[:1]))
        chromium.run("refreshState()")
        assert chromium.run("document.querySelectorAll('#jobs > details').length") == 1
        served.show(views.lost_card())
        chromium.run("refreshState()")
        assert text(chromium, "#notices") == "GPU 5 does not answer (lost)."
        assert chromium.run("document.querySelectorAll('.tile.lost').length") == 1


def test_says_when_figures_are_old(chromium: Browser) -> None:
    """When the daemon has no fresh tick or does not answer, the page says so and recovers by itself."""
    with serving(views.geforce()) as served:
        chromium.open(served.url)
        chromium.until(DRAWN)
        served.age_s = 9.0
        chromium.run("refreshState()")
        assert text(chromium, "#notices") == "No fresh figures: no tick for 9 s. What you see is old."
        served.age_s = 0.5
        chromium.run("refreshState()")
        assert text(chromium, "#notices") == ""
    chromium.run("refreshState()")
    assert "gpumon does not answer" in text(chromium, "#notices")
    # The browser itself notes each failed request; anything else is a fault of the page.
    chromium.problems[:] = [problem for problem in chromium.problems if "Failed to load resource" not in problem]


def test_paints_at_once(chromium: Browser) -> None:
    """With 16 cards and 20 jobs the first paint comes within 300 ms, and nothing is asked of anybody else."""
    entry = "performance.getEntriesByName('first-contentful-paint')"
    paints = []
    with serving(views.crowded()) as served:
        for _ in range(3):  # the best of three: other programs share the machine
            chromium.open(served.url)
            chromium.until(f"{entry}.length")
            paints.append(chromium.run(f"{entry}[0].startTime"))
        chromium.until(DRAWN)
        asked = chromium.run("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert min(paints) < 300
    assert asked
    assert all(name.startswith(served.url) for name in asked)
