"""Whatever is missing, zero or absurd: a detector answers or stays silent, it never fails."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.analysis.findings import JOB_DETECTORS, NODE_DETECTORS
from gpumon.analysis.humps import Humps
from gpumon.analysis.shape import Shape
from gpumon.analysis.strategy import STRATEGIES, by_shape
from gpumon.model.verdict import DETAILS, JobClass
from tests.findings.subjects import asked, each_card, each_facts, healthy, hosted, link, node, seen

ODD = st.sampled_from((math.nan, 0.0, 1e-9, 0.3, 1.0, 5e9, 1e15))
CLASSES = [(kind, detail) for kind in JobClass for detail in ("", *DETAILS.get(kind, ()))]


@pytest.mark.parametrize("cards", [1, 2, 8])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_odd_figures_never_fail(cards: int, data: st.DataObject) -> None:
    """Every detector is asked about jobs whose figures are drawn from what sensors and gaps can bring."""
    draw = data.draw
    subject = healthy(cards)
    kind, detail = draw(st.sampled_from(CLASSES))
    subject = replace(subject, verdict=replace(subject.verdict, job_class=kind, detail=detail, since_s=draw(ODD)))
    subject = seen(subject, draw(st.sampled_from(STRATEGIES)), contradicts=draw(st.booleans()))
    subject = asked(subject, accumulation=draw(st.sampled_from((0, 1, 8))), tensor_parallel=draw(st.integers(0, 8)))
    subject = each_card(
        subject,
        gap=draw(ODD),
        utilization=draw(ODD),
        memory_used=draw(ODD),
        power_limit=draw(ODD),
        power_default=draw(ODD),
        power=Humps(mean=draw(ODD), high_quarter=draw(ODD)),
        pcie=link(draw(ODD), draw(ODD)),
    )
    subject = each_facts(subject, memory_total=draw(ODD))
    subject = hosted(subject, **{name: draw(ODD) for name in subject.host})
    subject = replace(subject, step_s=draw(ODD), split=draw(st.sampled_from((None, subject.split))))
    for edge in (1.0, 0.85):
        for detector in JOB_DETECTORS:
            if detector.there(subject):
                detector.ask(subject, edge)
        for of_node in NODE_DETECTORS:
            if of_node.there(subject):
                of_node.ask(node(subject), edge)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), cards=st.integers(1, 4), processes=st.integers(0, 4))
def test_odd_shapes_never_fail(data: st.DataObject, cards: int, processes: int) -> None:
    """Neither does the recognition of strategies."""

    def many() -> tuple[float, ...]:
        return tuple(data.draw(st.lists(ODD, min_size=cards, max_size=cards)))

    shape = Shape(
        known=data.draw(st.booleans()),
        quiet=data.draw(st.booleans()),
        rate=many(),
        lean=many(),
        same_instant=data.draw(ODD),
        humped=data.draw(ODD),
        quiet_run_s=data.draw(ODD),
        slot_s=data.draw(ODD),
        power_swing=data.draw(ODD),
        power_spread=data.draw(ODD),
        busy=many(),
        memory=many(),
    )
    job = healthy(4).job
    job = replace(job, processes=job.processes[:processes])
    told = by_shape(job, shape, step_s=data.draw(ODD), loopback=data.draw(ODD), process_cpus=data.draw(ODD))
    assert told.strategy in ("", *STRATEGIES)
