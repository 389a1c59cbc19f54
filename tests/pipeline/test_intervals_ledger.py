"""A job's history in a report, and its account: what stays, what goes, and when."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from gpumon.model.job import Job, JobCard, JobKind
from gpumon.model.samples import CardTick
from gpumon.model.verdict import Interval, JobClass, Verdict
from gpumon.pipeline.intervals import extend
from gpumon.pipeline.ledger import Ledger, with_held_cards, with_nameless

NAN = math.nan


def tell(said: list[tuple[float, JobClass, float]]) -> tuple[Interval, ...]:
    """Return the intervals after verdicts (time, class, since), the span beginning at 0."""
    intervals: tuple[Interval, ...] = ()
    previous_s = 0.0
    for now_s, job_class, since_s in said:
        intervals = extend(intervals, Verdict(job_class, since_s=since_s), previous_s, now_s)
        previous_s = now_s
    return intervals


def spans(intervals: tuple[Interval, ...]) -> list[tuple[float, float, str]]:
    return [(interval.t0, interval.t1, interval.job_class.value) for interval in intervals]


def test_a_boundary_is_put_where_the_class_began() -> None:
    """A verdict at 30 s that holds since 22 s moves the boundary back to 22 s."""
    intervals = tell([(10.0, JobClass.COMPUTE, 0.0), (29.0, JobClass.COMPUTE, 0.0), (30.0, JobClass.HOST, 22.0)])
    assert spans(intervals) == [(0.0, 22.0, "compute"), (22.0, 30.0, "host")]


def test_the_time_before_the_first_verdict_belongs_to_it() -> None:
    """Unknown seconds at the start are covered by a first verdict that holds since then."""
    intervals = tell([(8.0, JobClass.UNKNOWN, NAN), (9.0, JobClass.COMPUTE, 0.0)])
    assert spans(intervals) == [(0.0, 9.0, "compute")]


def test_intervals_cover_the_span_without_gaps() -> None:
    """Whatever is said, each interval begins where the one before ends."""
    said = [
        (3.0, JobClass.UNKNOWN, NAN),
        (9.0, JobClass.COMPUTE, 4.0),
        (20.0, JobClass.HOST, 12.0),
        (21.0, JobClass.COMPUTE, 5.0),
        (40.0, JobClass.UNKNOWN, 33.0),
    ]
    intervals = tell(said)
    assert intervals[0].t0 == 0.0
    assert intervals[-1].t1 == 40.0
    assert all(left.t1 == right.t0 for left, right in pairwise(intervals))
    assert all(interval.t1 > interval.t0 for interval in intervals)


def test_a_new_detail_does_not_rewrite_the_past() -> None:
    """Another detail of the same class begins now, although the class began long ago."""
    intervals = extend((), Verdict(JobClass.HOST, "input", since_s=0.0), 0.0, 50.0)
    intervals = extend(intervals, Verdict(JobClass.HOST, "checkpoint", since_s=0.0), 50.0, 51.0)
    assert spans(intervals) == [(0.0, 50.0, "host"), (50.0, 51.0, "host")]


def job(*uuids: str, kind: JobKind = JobKind.SESSION) -> Job:
    return Job("session:1", kind, "unassigned", tuple(JobCard(uuid) for uuid in uuids), ((1, 1),))


def card_tick(uuid: str, up: bool = True) -> CardTick:
    return CardTick(uuid, up, None, 0.0)


def test_a_lost_card_stays_with_its_job() -> None:
    """A card that no longer answers is still the job's, marked as not used."""
    ticks = {"a": card_tick("a"), "b": card_tick("b", up=False)}
    held = with_held_cards(job("a"), job("a", "b"), ticks)
    assert [(card.uuid, card.used) for card in held.cards] == [("a", True), ("b", False)]


def test_a_card_that_was_given_back_does_not_stay() -> None:
    """A card that answers and is no longer listed has left the job."""
    ticks = {"a": card_tick("a"), "b": card_tick("b")}
    assert [card.uuid for card in with_held_cards(job("a"), job("a", "b"), ticks).cards] == ["a"]


def test_a_nameless_job_keeps_the_card_that_pauses() -> None:
    """Without process lists the idle card of a checkpoint still belongs to the job, and the job outlives a pause."""
    nameless = job("a", "b", kind=JobKind.UNATTRIBUTED)
    ticks = {"a": card_tick("a"), "b": card_tick("b")}
    now = job("b", kind=JobKind.UNATTRIBUTED)
    assert {card.uuid for card in with_held_cards(now, nameless, ticks).cards} == {"a", "b"}
    ledgers = {"session:1": Ledger(nameless, worked_s=100.0)}
    assert with_nameless((), ledgers, ticks, 160.0) == (nameless,)
    assert with_nameless((), ledgers, ticks, 300.0) == ()


def test_a_nameless_job_ends_when_its_cards_are_empty() -> None:
    """Cards whose memory is free hold nobody: the job ended. As long as one holds a context it may be a pause."""
    nameless = job("a", "b", kind=JobKind.UNATTRIBUTED)
    ledgers = {"session:1": Ledger(nameless, worked_s=100.0)}
    free = {"memory_used_bytes": 4e6}
    left = {"a": replace(card_tick("a"), readings=free), "b": replace(card_tick("b"), readings=free)}
    assert with_nameless((), ledgers, left, 104.0) == ()
    pauses = left | {"b": replace(card_tick("b"), readings={"memory_used_bytes": 9e9})}
    assert with_nameless((), ledgers, pauses, 104.0) == (nameless,)
