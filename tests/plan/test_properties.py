"""What must hold for any question: more memory, more bandwidth and fewer bytes never hurt, and nothing raises."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.data import tables
from gpumon.plan.answer import evaluate, plan
from gpumon.plan.html_view import page
from gpumon.plan.json_view import document
from gpumon.plan.layouts import every
from gpumon.plan.memory import memory
from gpumon.plan.request import Method, Optimizer, PlanError, Precision, Request, Strategy, check
from gpumon.plan.shapes import generic
from gpumon.plan.text_view import text

MODELS = st.one_of(
    st.sampled_from(tables.models()),
    st.floats(1e6, 2e12).map(lambda parameters: generic(parameters, "SIZE")),
)
FEW = settings(max_examples=60, deadline=None)


@st.composite
def requests(draw: st.DrawFn, strategies: bool = True) -> Request:
    """Any request whose values are within their ranges; the combination may still be impossible."""
    card = draw(st.sampled_from(tables.cards()))
    context = draw(st.integers(2, 40_000))
    strategy = draw(st.none() | st.sampled_from(Strategy)) if strategies else None
    return Request(
        model=draw(MODELS),
        card=card,
        cards=draw(st.integers(1, 24)),
        method=draw(st.sampled_from(Method)),
        strategy=strategy,
        group=draw(st.none() | st.integers(1, 8)) if strategy in (Strategy.TP, Strategy.PP) else None,
        precision=draw(st.sampled_from(Precision)),
        batch=draw(st.integers(1, 64)),
        sequence=draw(st.integers(1, 40_000)),
        accumulation=draw(st.integers(1, 16)),
        recompute=draw(st.booleans()),
        optimizer=draw(st.sampled_from(Optimizer)),
        context=context,
        output_tokens=draw(st.integers(1, context - 1)),
        concurrency=draw(st.integers(1, 300)),
        p2p=draw(st.booleans()),
        nvlink=draw(st.booleans()) and card.nvlink_kind != "none",
        pcie_generation=draw(st.integers(1, 6)),
        pcie_lanes=draw(st.sampled_from((1, 2, 4, 8, 16))),
        bandwidth=draw(st.just(()) | st.tuples(st.tuples(st.integers(1, 24), st.floats(1e6, 1e12)))),
        one_card_rate=draw(st.none() | st.floats(1e-3, 1e5)),
        price_per_card_hour=draw(st.none() | st.floats(0.01, 100)),
    )


def _possible(request: Request) -> bool:
    try:
        check(request)
    except PlanError:
        return False
    return True


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_finite(each) for each in value.values())
    return all(_finite(each) for each in value) if isinstance(value, list) else True


@FEW
@given(requests())
def test_any_question_is_answered_or_refused_in_one_sentence(request: Request) -> None:
    """Random inputs give an answer in every form, or one sentence; never another exception, never NaN or infinity."""
    try:
        answer = plan(request)
    except PlanError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("plan: ")
        return
    assert _finite(document(answer))
    for language in ("en", "zh"):
        assert text(answer, language)
        assert page(answer, language).startswith("<!doctype html>")


@FEW
@given(requests(strategies=False), st.floats(1.0, 10.0))
def test_more_memory_never_stops_fitting(request: Request, factor: float) -> None:
    """What fits a card fits the same card with more memory."""
    if not _possible(request):
        return
    larger = replace(request, card=replace(request.card, memory_bytes=request.card.memory_bytes * factor))
    for layout in every(request, request.cards):
        assert memory(larger, layout).fits or not memory(request, layout).fits
    if plan(request).fits:
        assert plan(larger).fits


@FEW
@given(requests(strategies=False), st.floats(1e6, 1e11), st.floats(1.0, 100.0))
def test_more_bandwidth_never_slows(request: Request, rate: float, factor: float) -> None:
    """No layout and no best layout gets slower or less efficient with more bandwidth."""
    if not _possible(request):
        return
    slow, fast = replace(request, bandwidth=((1, rate),)), replace(request, bandwidth=((1, rate * factor),))
    for layout in every(request, request.cards):
        before, after = evaluate(slow, layout), evaluate(fast, layout)
        for field in ("low", "typical", "high"):
            assert getattr(after.throughput, field) >= getattr(before.throughput, field) * (1 - 1e-9)
        assert after.efficiency.typical >= before.efficiency.typical * (1 - 1e-9)
    assert plan(fast).chosen.throughput.typical >= plan(slow).chosen.throughput.typical * (1 - 1e-9)


@FEW
@given(requests(strategies=False), st.floats(1.0, 50.0))
def test_more_bytes_never_speed_up(request: Request, factor: float) -> None:
    """At the same one-card speed a model with more parameters, so more bytes to exchange, never trains faster."""
    training = replace(request, method=Method.FULL, precision=Precision.FP16, one_card_rate=1.0)
    if not _possible(training):
        return
    model = training.model
    heavier = replace(training, model=replace(model, parameters=model.parameters * factor))
    for layout in every(training, training.cards):
        before, after = evaluate(training, layout), evaluate(heavier, layout)
        assert sum(each.sent_bytes for each in after.traffic) >= sum(each.sent_bytes for each in before.traffic)
        assert after.throughput.typical <= before.throughput.typical * (1 + 1e-9)


@FEW
@given(requests(strategies=False))
def test_ranges_are_in_order(request: Request) -> None:
    """Low is not above typical and typical not above high, for throughput, efficiency and step."""
    if not _possible(request):
        return
    for layout in every(request, request.cards):
        option = evaluate(request, layout)
        for value in (option.throughput, option.efficiency, option.step_seconds):
            assert value.low <= value.typical * (1 + 1e-9)
            assert value.typical <= value.high * (1 + 1e-9)


@FEW
@given(requests(strategies=False))
def test_efficiency_is_at_most_one(request: Request) -> None:
    """N cards never do the work of more than N."""
    if not _possible(request):
        return
    for layout in every(request, request.cards):
        assert evaluate(request, layout).efficiency.typical <= 1 + 1e-9
