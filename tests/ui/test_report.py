"""The finished report: what it says of a whole watch, as JSON, text and HTML."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpumon.model.verdict import JobClass, Outcome, Verdict
from gpumon.model.view import NodeView
from gpumon.ui import report_html, report_text
from gpumon.ui.compare import changes
from gpumon.ui.report import MAX_POINTS, ReportCollector
from tests import views
from tests.ui.chromium import browser
from tests.ui.reports import mended, misconfigured, of_class, watched


def test_json_covers_the_span_without_gaps() -> None:
    """The JSON is the contract's: the class that held longest, and intervals from the first sample to the last."""
    got = json.loads(misconfigured().report.json(), parse_constant=pytest.fail)
    assert (got["schema"], got["span_seconds"]) == (1, 60.0)
    job = got["jobs"][0]
    assert (job["class"], job["detail"], job["gpus"]) == ("communication", "bandwidth", list(range(8)))
    intervals = job["intervals"]
    assert [(row["class"], row["t0"], row["t1"]) for row in intervals] == [
        ("unknown", 0.0, 8.0),
        ("host", 8.0, 20.0),
        ("communication", 20.0, 60.0),
    ]


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (((50.0, views.UNKNOWN), (10.0, views.COMPUTE)), "unknown"),
        (((40.0, views.UNKNOWN), (20.0, views.COMPUTE)), "compute"),
        (((30.0, views.IDLE), (29.0, views.COMPUTE)), "idle"),
    ],
)
def test_class_of_a_whole_watch(phases: tuple[tuple[float, Verdict], ...], expected: str) -> None:
    """What held longest counts; a start without evidence yields to a verdict that held a fifth of the time."""
    assert watched(views.geforce(), phases).report.jobs[0].job_class == expected


def test_detail_is_the_one_that_held_longest() -> None:
    """Two details of one class add up to the class; the longer one is told."""
    phases = (
        (20.0, of_class(JobClass.HOST, "input")),
        (25.0, of_class(JobClass.COMPUTE, "")),
        (15.0, of_class(JobClass.HOST, "checkpoint")),
    )
    job = watched(views.geforce(), phases).report.jobs[0]
    assert (job.job_class, job.detail) == ("host", "input")


def test_time_split_is_of_the_whole_watch() -> None:
    """Where card time was added up over the watch, the report tells its shares, not the last window's."""
    collector = ReportCollector()
    view = views.geforce()
    totals = {"compute": 30.0, "host_wait": 10.0}
    job = dataclasses.replace(view.jobs[0], time_seconds_total=totals)
    collector.add(dataclasses.replace(view, jobs=(job,)), {})
    finished = collector.finish()
    assert finished is not None
    ratios = finished.report.jobs[0].time_ratio
    assert ratios is not None
    assert (ratios["compute"], ratios["host_wait"], ratios["communication"]) == (0.75, 0.25, 0.0)


def test_ended_jobs_stay_in_the_report() -> None:
    """A job that ended during the watch is reported with the verdict it had."""
    collector = ReportCollector()
    view = views.geforce()
    collector.add(view, {})
    later = dataclasses.replace(
        view, mono_s=view.mono_s + 60.0, jobs=(dataclasses.replace(view.jobs[0], ended_s=view.mono_s + 1.0),)
    )
    collector.add(later, {})
    finished = collector.finish()
    assert finished is not None
    assert [job.job_class for job in finished.report.jobs] == ["communication"]
    assert ReportCollector().finish() is None


def test_a_long_watch_keeps_few_points() -> None:
    """The charts of a watch of any length hold at most MAX_POINTS points over its whole span."""
    charts = watched(views.node_view((views.card_view(0),), ()), ((5000.0, views.IDLE),)).charts
    assert MAX_POINTS / 2 < len(charts.t_s) <= MAX_POINTS
    assert charts.t_s[0] == 0.0
    assert charts.t_s[-1] > 4980.0


def test_text_says_which_job_and_why() -> None:
    """The text fits 100 columns and holds the answer, the reasons with numbers, what to do, and the phases."""
    text = report_text.text(misconfigured())
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "node-17: 8x NVIDIA GeForce RTX 5090, watched for 60 s",
        "Waits for data between cards: each card's own link is the limit.",
        "[!!] GPU 0-7",
        "communication (bandwidth), 93 % sure",
        "power falls by 276 W",
        "Accumulate gradients",
        "4 cards (GPU 0-3) would be as fast",
        "8 s to 20 s host (input)",
    ):
        assert part in text
    assert re.search(r"= sending \d+ %", text)
    bar = re.search(r"\[([#+m=~h.]+)\]", text)
    assert bar
    assert len(bar[1]) == 40


def test_text_of_other_nodes() -> None:
    """No jobs, no driver, a lost card, a simulated node: the first sentence says so."""
    assert "No job used these cards." in report_text.text(watched(views.no_jobs(), ((3.0, views.IDLE),)))
    assert "No NVIDIA driver answered (driver_not_loaded)." in report_text.text(
        watched(views.no_driver(), ((3.0, views.IDLE),))
    )
    unclear = report_text.text(watched(views.geforce(), ((9.0, views.UNKNOWN),)))
    assert "Not enough evidence yet." in unclear
    assert "2 of 2 jobs cannot be judged." in report_text.text(watched(views.geforce(2), ((9.0, views.UNKNOWN),)))
    assert "No job was held back." in report_text.text(mended())
    lost = report_text.text(misconfigured(views.lost_card()))
    assert "A card of this job does not answer: GPU 5" in lost
    assert re.search(r"^  5  RTX 5090 +no answer \(lost\)$", lost, re.MULTILINE)
    view = views.geforce()
    simulated = dataclasses.replace(view, node=dataclasses.replace(view.node, simulated=True))
    assert "SIMULATED NODE" in report_text.text(misconfigured(simulated))
    assert "SIMULATED NODE" in report_html.html(misconfigured(simulated))


def test_a_straggler_is_named_first() -> None:
    """Where the others wait for a card, the first sentence says for which."""
    verdict = views.straggling(views.geforce().jobs[0], 3).verdict
    text = report_text.text(watched(views.geforce(), ((30.0, verdict),)))
    assert "The other cards wait for GPU 3." in text
    assert "GPU 3 keeps the others waiting (thermal): costs 18 % of the time." in text
    hot = views.straggling(views.geforce().jobs[0], 3, views.HOT).verdict
    assert "Slowed down by heat (GPU 3; the others wait)." in report_text.text(watched(views.geforce(), ((30.0, hot),)))


def test_hostile_names_in_text_and_html() -> None:
    """Names cannot move the cursor, break a line, turn the text around, or become markup."""
    finished = misconfigured(views.hostile())
    text = report_text.text(finished)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "<script>alert(1)</script>" in text
    page = report_html.html(finished)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page


class _Structure(HTMLParser):
    """Fails on a tag that is closed out of order."""

    _VOID = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.styled = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.styled |= "style" in dict(attrs)
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.styled |= "style" in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "view", [views.geforce(), views.crowded(), views.hostile(), views.lost_card(), views.no_jobs()]
)
def test_html_is_whole_and_alone(view: NodeView) -> None:
    """The file is well formed, names no outside address, has no script and no style attribute."""
    page = report_html.html(misconfigured(view), before=mended())
    structure = _Structure()
    structure.feed(page)
    assert structure.open == []
    assert not structure.styled
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_what_a_change_brought() -> None:
    """A finding of the run before is gone: JSON, text and HTML say what was expected of that and what is seen."""
    outcome = Outcome(("no_accumulation",), (1.2, 1.9), 1.524, 0.031, "period", 0.0)
    finished = watched(views.geforce(), ((60.0, dataclasses.replace(views.COMPUTE, outcome=outcome)),))
    said = "By the length of its steps it is 1.52 ± 0.03 times as fast as in the run before, of which"
    assert said in " ".join(report_text.text(finished).split())
    assert said in report_html.html(finished)
    assert json.loads(finished.report.json())["jobs"][0]["outcome"] == {
        "findings": ["no_accumulation"],
        "expected": [1.2, 1.9],
        "seen": 1.524,
        "uncertainty": 0.031,
        "evidence": "period",
        "result": "as expected",
    }


def test_before_and_after() -> None:
    """Two reports of the same job say how a step's length and the verdict changed."""
    before, after = misconfigured(), mended()
    change = changes(before.report, after.report)[0]
    assert math.isclose(change.speed_up(), 0.467 / 0.31)
    text = report_text.text(after, before)
    assert "A step takes 0.31 s instead of 0.467 s: 1.51 times as fast." in text
    assert "It is compute instead of communication (bandwidth)." in " ".join(text.split())
    slower = report_text.text(before, after)
    assert "slower, 1.51 times as long" in slower
    assert "A step takes 0.31 s, as before." in report_text.text(after, after)
    assert "Before and after" in report_html.html(after, before)


def test_compare_without_a_period() -> None:
    """Without a clear step the largest shift of time is told; without that, that nothing can be told."""
    view = views.geforce()
    unclear = dataclasses.replace(views.COMMUNICATION, step_seconds=math.nan)
    after = watched(view, ((20.0, dataclasses.replace(views.COMPUTE, step_seconds=math.nan)),))
    text = " ".join(report_text.text(after, watched(view, ((20.0, unclear),))).split())
    assert "Time in compute: 90% instead of" in text
    blind = watched(view, ((20.0, views.UNKNOWN),))
    assert "Neither the length of a step nor the time split is known" in report_text.text(blind, blind)


def test_jobs_are_known_again() -> None:
    """A job is found again by name, else by its cards, else as the only one; strangers are not compared."""
    before = watched(views.geforce(2), ((5.0, views.COMMUNICATION),)).report
    renamed = dataclasses.replace(
        views.geforce(2), jobs=(views.job_view("c.new", (0, 1, 2, 3)), views.job_view("c.other", (0,)))
    )
    after = watched(renamed, ((5.0, views.COMPUTE),)).report
    assert [(change.before.gpu_job, change.after.gpu_job) for change in changes(before, after)] == [
        (before.jobs[0].gpu_job, "c.new")
    ]
    alone = watched(views.node_view((views.card_view(0),), (views.job_view("c.x", (0,)),)), ((5.0, views.IDLE),)).report
    again = watched(views.geforce(), ((5.0, views.IDLE),)).report
    assert len(changes(alone, again)) == 1


@pytest.mark.tools
def test_html_in_chromium(tmp_path: Path) -> None:
    """The file opens from disk without a word on the console, charts drawn, on a phone without scrolling sideways."""
    file = tmp_path / "report.html"
    file.write_text(report_html.html(misconfigured(), before=mended()), "utf-8")
    with browser() as chromium:
        for width in (1280, 390):
            chromium.open(file.as_uri(), width=width, mobile=width < 500)
            assert chromium.run("document.querySelectorAll('svg.area path').length") > 3
            assert chromium.run("getComputedStyle(document.querySelector('svg .s-compute')).fill") == "rgb(0, 158, 115)"
            assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.problems == []
