"""Who is told what, how often, and what a restart, a dead service or a quiet night change about it."""

from __future__ import annotations

import dataclasses
import random
import stat
from collections.abc import Callable
from datetime import datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpumon.model.view import NodeView
from gpumon.notify import outbox
from gpumon.notify.target import OPERATOR, Quiet
from tests import views
from tests.notify import nodes
from tests.notify.watching import ACME, OPERATIONS, ZETA, Watch

HEALTHY = nodes.healthy()
HUNG = dataclasses.replace(views.IDLE, job_class=views.JobClass.HUNG)

# Ten kinds of fault: how the node looks, how long until it must have been told, and to whom.
FAULTS: dict[str, tuple[nodes.Change, float, set[str]]] = {
    "communication": (nodes.with_verdict(views.COMMUNICATION), 18, {"acme"}),
    "host": (nodes.with_verdict(views.INPUT_BOUND), 22, {"acme"}),
    "idle": (nodes.with_verdict(views.IDLE), 60, {"acme"}),
    "hung": (nodes.with_verdict(HUNG), 6, {"acme"}),
    "tensor parallel over PCIe": (nodes.with_finding("tp_over_pcie"), 16, {"acme"}),
    "lost card": (nodes.lost_card, 6, {"acme", OPERATOR}),
    "slow by heat": (nodes.with_straggler("thermal"), 16, {OPERATOR}),
    "slow by its work": (nodes.with_straggler("unknown"), 16, {"acme"}),
    "power brake": (nodes.with_card(5, nodes.throttled("hw_power_brake")), 6, {OPERATOR}),
    "narrow link": (
        nodes.with_card(
            5, lambda card: dataclasses.replace(card, pcie=dataclasses.replace(card.pcie, downtrained=True))
        ),
        20,
        {OPERATOR},
    ),
}


@pytest.mark.parametrize("start_minutes", [0.0, 7.0, 33.0])
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_told_once_to_the_right_audience(name: str, start_minutes: float) -> None:
    """30 injected faults of 10 kinds: each told once, resolved once, and never to another tenant."""
    change, minutes, audience = FAULTS[name]
    watch = Watch(None)
    watch.run(start_minutes, HEALTHY)
    watch.run(minutes, HEALTHY, change)
    assert sorted(watch.told()) == sorted((owner, "firing") for owner in audience)
    watch.run(60, HEALTHY)
    assert sorted(watch.told()) == sorted((owner, status) for owner in audience for status in ("firing", "resolved"))


def test_a_verdict_that_wavers_is_one_message() -> None:
    """A third of the ticks without the verdict, in any order, neither end nor repeat it."""
    dice = random.Random(8)
    watch = Watch(None)
    for _ in range(400):
        change = nodes.with_verdict(views.COMMUNICATION if dice.random() < 0.75 else views.UNKNOWN)
        watch.run(0.25, HEALTHY, change)
    assert watch.told() == [("acme", "firing")]


def test_repeats_and_says_when_it_is_over() -> None:
    """An alert that holds is told again after the configured time, and no earlier."""
    watch = Watch(None, repeat_s=6 * 3600.0)
    watch.run(6 * 60, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.told() == [("acme", "firing")]
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.told() == [("acme", "firing")] * 2


def test_a_reason_is_told_in_place_of_its_consequence() -> None:
    """A finding that explains the class replaces the message about the class."""
    verdict = dataclasses.replace(
        views.COMMUNICATION, scaling=None, findings=(nodes.FINDINGS_BY_NAME["tp_over_pcie"].found(("seen",)),)
    )
    watch = Watch(None)
    watch.run(30, HEALTHY, nodes.with_verdict(verdict))
    assert [message.title for _, message in watch.got][-1].startswith("Tensor parallelism over PCIe")
    assert len(watch.got) == 1


def test_alerts_of_one_job_that_begin_together_are_one_message() -> None:
    """Two findings of one job come in one text."""
    findings = tuple(nodes.FINDINGS_BY_NAME[name].found(("seen",)) for name in ("swapping", "shm_small"))
    watch = Watch(None)
    watch.run(20, HEALTHY, nodes.with_verdict(dataclasses.replace(views.COMPUTE, findings=findings)))
    ((owner, message),) = watch.got
    assert owner == "acme" and "swaps" in message.text and "/dev/shm" in message.text
    assert message.title.endswith("(+1)")


def test_language_and_numbers() -> None:
    """Each tenant reads its own language, with its own job's figures, and no Markdown or HTML of ours."""
    for target, words in ((ACME, "4 of its cards"), (dataclasses.replace(ACME, language="zh"), "任务有 4 张卡。")):
        watch = Watch(None, (target,))
        watch.run(20, HEALTHY, nodes.with_verdict(views.COMMUNICATION))
        text = watch.got[0][1].text
        assert ("About 50 % of each step waits for transfers." in text) == (target.language == "en")
        assert (words in text) == (target.language == "zh")


def test_customers_without_a_target_are_the_operators_business() -> None:
    """A tenant without a target of its own is told to the operator, never to another tenant."""
    watch = Watch(None, (ZETA, OPERATIONS))
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.told() == [(OPERATOR, "firing")]


def test_restart_neither_repeats_nor_forgets(tmp_path: Path) -> None:
    """A told alert is not told again after a restart, and its end is told once."""
    watch = Watch(tmp_path)
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    watch.courier.stop()
    second = Watch(tmp_path)
    second.seconds = watch.seconds + 300
    second.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert second.told() == []
    second.run(30, HEALTHY)
    assert second.told() == [("acme", "resolved")]


def test_messages_that_wait_survive_a_restart(tmp_path: Path) -> None:
    """What could not be delivered is delivered after the restart, once."""
    watch = Watch(tmp_path)
    watch.problem = "status 503"
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.got == []
    second = Watch(tmp_path)
    second.seconds = watch.seconds + 3600
    second.run(5, HEALTHY, nodes.with_verdict(HUNG))
    assert second.told() == [("acme", "firing")]


def test_memory_is_private(tmp_path: Path) -> None:
    """The file is the daemon's alone and holds no address."""
    watch = Watch(tmp_path)
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    file = tmp_path / outbox.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "/nowhere" not in file.read_text("utf-8")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 9}', '{"version":1,"told":[{"condition":3}]}'])
def test_broken_memory_is_set_aside(tmp_path: Path, content: str) -> None:
    """A file that cannot be read does not stop the notifications, and is kept for a look."""
    (tmp_path / outbox.FILE).write_text(content, "utf-8")
    watch = Watch(tmp_path)
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.told() == [("acme", "firing")]
    assert (tmp_path / "notify.broken").read_text("utf-8") == content


def test_memory_that_cannot_be_written(tmp_path: Path) -> None:
    """Without a place for its memory the notifier still tells."""
    watch = Watch(tmp_path / "missing")
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.told() == [("acme", "firing")]


def test_back_off_and_counts() -> None:
    """A service that is down is asked a handful of times in an hour; every attempt is counted."""
    watch = Watch(None)
    assert watch.courier.counts()["webhook", "failed"] == 0
    watch.problem = "no answer (ConnectionRefusedError)"
    watch.run(60, HEALTHY, nodes.with_verdict(HUNG))
    counts = watch.courier.counts()
    assert 5 <= counts["webhook", "failed"] <= 8
    watch.problem = ""
    watch.run(70, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.courier.counts()["webhook", "sent"] == 1


def test_a_message_is_dropped_after_a_day() -> None:
    """What nobody took within a day is given up and counted."""
    watch = Watch(None, (ACME,), repeat_s=30 * 86_400.0)
    watch.problem = "status 500"
    watch.run(24 * 60 + 10, HEALTHY, nodes.with_verdict(HUNG))
    assert watch.courier.counts()["webhook", "dropped"] == 1


def test_over_before_it_was_told() -> None:
    """A message that waited through its alert's whole life is withdrawn, and nobody hears of its end."""
    asleep = Quiet(time(0, 0), time(23, 59), ZoneInfo("UTC"))
    watch = Watch(None, (dataclasses.replace(ACME, quiet=asleep),))
    watch.run(20, HEALTHY, nodes.with_verdict(views.COMMUNICATION))
    watch.run(60, HEALTHY)
    assert watch.told() == [] and watch.courier.counts()["webhook", "sent"] == 0


def test_quiet_hours_hold_back_all_but_the_critical() -> None:
    """At night in Shanghai a slow job waits until morning and a lost card does not."""
    local = ZoneInfo("Asia/Shanghai")
    hour = datetime.fromtimestamp(views.WALL_S, local).hour
    night = Quiet(time(hour), time((hour + 3) % 24), local)
    watch = Watch(None, (dataclasses.replace(ACME, quiet=night),))
    watch.run(20, HEALTHY, nodes.with_verdict(views.COMMUNICATION))
    assert watch.told() == []
    watch.run(6, HEALTHY, nodes.lost_card)
    assert watch.told() == [("acme", "firing")]
    watch.run(180, HEALTHY, nodes.with_verdict(views.COMMUNICATION))
    assert ("acme", "firing") in watch.told()[1:]


def test_without_the_driver_nothing_begins_or_ends() -> None:
    """A driver that goes away for an hour is told to the operator; the job's alert stays and is not repeated."""
    gone = dataclasses.replace(HEALTHY, nvml_up=False, nvml_fault="driver_not_loaded", cards=(), jobs=())
    watch = Watch(None)
    watch.run(10, HEALTHY, nodes.with_verdict(HUNG))
    watch.run(60, gone)
    watch.run(20, HEALTHY, nodes.with_verdict(HUNG))
    assert sorted(watch.told()) == [(OPERATOR, "firing"), (OPERATOR, "resolved"), ("acme", "firing")]


def test_released_driver_is_not_a_fault() -> None:
    """A driver released on request is nobody's alert."""
    released = dataclasses.replace(HEALTHY, nvml_up=False, nvml_fault="released", cards=(), jobs=())
    watch = Watch(None)
    watch.run(60, released)
    assert watch.told() == []


@pytest.mark.parametrize(
    ("card", "xid", "owners"),
    [(1, 31, {"acme"}), (5, 31, {"zeta"}), (1, 79, {OPERATOR}), (1, 999, {OPERATOR}), (1, 63, {OPERATOR})],
)
def test_errors_of_the_driver(card: int, xid: int, owners: set[str]) -> None:
    """An error of a program goes to the one tenant whose job held the card, any other to the operator."""
    watch = Watch(None)
    watch.run(1, HEALTHY)
    watch.run(5, HEALTHY, nodes.with_xid(card, xid, 60.0))
    assert {owner for owner, _ in watch.told()} == owners


def test_error_on_a_shared_card_is_told_to_no_tenant() -> None:
    """Where two jobs hold the card nobody knows whose program it was."""

    def shared(view: NodeView) -> NodeView:
        both = dataclasses.replace(
            view.jobs[1], job=dataclasses.replace(view.jobs[1].job, cards=view.jobs[0].job.cards)
        )
        return nodes.with_xid(1, 31, 0.0)(dataclasses.replace(view, jobs=(view.jobs[0], both)))

    watch = Watch(None)
    watch.run(5, HEALTHY, shared)
    assert watch.told() == []


HEALTHY_MINUTES: tuple[Callable[[random.Random], list[tuple[float, nodes.Change]]], ...] = (
    lambda dice: [
        (dice.uniform(0, 12), nodes.with_verdict(views.IDLE)),
        (dice.uniform(0, 8), nodes.with_verdict(views.INPUT_BOUND)),
    ],
    lambda dice: [(dice.uniform(5, 45), nodes.with_verdict(views.IDLE))],
    lambda dice: [(dice.uniform(1, 8), nodes.with_verdict(views.INPUT_BOUND)), (16, lambda view: view)] * 3,
    lambda dice: [(dice.uniform(1, 8), nodes.with_verdict(views.COMMUNICATION)), (15, lambda view: view)] * 3,
    lambda dice: [(dice.uniform(0.1, 2), nodes.with_card(2, nodes.silent))],
)


@pytest.mark.parametrize("seed", range(20))
def test_healthy_transitions_are_not_told(seed: int) -> None:
    """A start, a lull, checkpoints, evaluations and a blink of a card reach nobody."""
    dice = random.Random(seed)
    watch = Watch(None)
    watch.run(5, HEALTHY)
    for minutes, change in HEALTHY_MINUTES[seed % len(HEALTHY_MINUTES)](dice):
        watch.run(minutes, HEALTHY, change)
    watch.run(30, HEALTHY)
    assert watch.told() == []


def test_a_flood_is_bounded(tmp_path: Path) -> None:
    """The queue never holds more than its bound, and what falls out is counted."""
    watch = Watch(tmp_path, (dataclasses.replace(ACME, most_per_hour=1),), repeat_s=3600.0)
    watch.problem = "status 500"
    jobs = tuple(views.job_view(f"container:{n:03}", (n % 8,), HUNG, "acme") for n in range(250))
    watch.run(10, dataclasses.replace(HEALTHY, jobs=jobs))
    kept = outbox.load(tmp_path / outbox.FILE)
    assert len(kept.waiting) == outbox.MOST_WAITING
    assert watch.courier.counts()["webhook", "dropped"] == 50
