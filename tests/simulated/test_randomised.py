"""Random instances are reproducible, spread over all classes, and crowd at the borders; healthy ones are healthy."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pytest

from gpumon.hardware.simulated.randomised import FAMILIES, randomised
from gpumon.hardware.simulated.transitions import KINDS, healthy_transition
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.verdict import JobClass

SAMPLED = range(9000, 9044)


@lru_cache
def _truth(seed: int) -> JobTruth:
    instance = randomised(seed)
    world = World(instance.scenario, seed, keeps_all=True)
    world.advance(instance.seconds)
    begin = instance.seconds - 40.0
    return job_truths(world, begin, instance.seconds)[0]


def test_same_seed_same_instance() -> None:
    """A seed always gives the same instance, another seed another."""
    assert randomised(7) == randomised(7)
    assert randomised(7) != randomised(8)


def test_a_third_lies_at_the_border() -> None:
    """More than a third of all draws are made near the family's neighbour, and about as many of every family."""
    near: Counter[str] = Counter()
    drawn: Counter[str] = Counter()
    for seed in range(2000):
        instance = randomised(seed)
        drawn[instance.family] += 1
        near[instance.family] += instance.near
    assert set(drawn) == {family[0] for family in FAMILIES}
    assert sum(near.values()) > 0.4 * sum(drawn.values())
    assert all(near[name] > 0.25 * drawn[name] for name in drawn)


def test_every_class_comes_up() -> None:
    """All seven classes occur among a few dozen instances, and none is more than half of them."""
    classes = Counter(_truth(seed).job_class for seed in SAMPLED)
    assert set(classes) >= set(JobClass) - {JobClass.UNKNOWN}
    assert max(classes.values()) <= len(SAMPLED) / 2


def test_clear_ones_and_twins_both_occur() -> None:
    """There are instances with a clear lead and instances that nobody could tell."""
    margins = [_truth(seed).margin for seed in SAMPLED]
    assert sum(margin >= 0.15 for margin in margins) >= len(SAMPLED) / 3
    assert any(margin <= 0.05 for margin in margins)


def test_splits_are_shares() -> None:
    """Whatever is drawn, the states of its time add up to one."""
    for seed in SAMPLED:
        assert sum(_truth(seed).split.values()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(2 * len(KINDS)))
def test_healthy_transitions_are_healthy(seed: int) -> None:
    """In every minute of its life a job of a healthy transition computes, or uses its memory, most of the time."""
    transition = healthy_transition(seed)
    world = World(transition.scenario, seed, keeps_all=True)
    world.advance(transition.seconds)
    for plan in transition.scenario.jobs:
        first = max(plan.start_s + plan.load_seconds if plan.start_s > 0 else 0.0, 0.0)
        begin, end = first, min(plan.end_s, transition.seconds)
        truth = next(one for one in job_truths(world, begin, end) if one.name == plan.name)
        assert truth.job_class in (JobClass.COMPUTE, JobClass.MEMORY)
        assert truth.margin > 0.2
        assert truth.culprit is None or transition.kind == "checkpoint"
