"""Every finding: found where it is so, silent in its near twin, and not there without a signal it needs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpumon.analysis.findings import JOB_DETECTORS, NODE_DETECTORS
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.signals import SIGNALS, Signal
from gpumon.analysis.findings.subject import NodeSubject, Subject
from gpumon.model.findings import CUSTOMER, FINDINGS_BY_NAME, OPERATOR
from tests.findings.cases import CASES, NODE_CASES, Case, NodeCase
from tests.findings.removal import REMOVED
from tests.findings.subjects import healthy, node

OF_JOB = {detector.finding: detector for detector in JOB_DETECTORS}
OF_NODE = {detector.finding: detector for detector in NODE_DETECTORS}
# "1 cards"; of a set of one it is right ("1 of 4 cards").
MISCOUNTED = re.compile(r"(?<![\d.])1 (?:cards|processes|loaders|loader processes|CPUs|NVLinks|others|threads)\b")
EVERY = pytest.mark.parametrize("case", CASES, ids=lambda case: case.finding)
EVERY_OF_NODE = pytest.mark.parametrize("case", NODE_CASES, ids=lambda case: case.finding)
NEEDS = [(case, signal) for case in CASES for signal in OF_JOB[case.finding].needs]
NODE_NEEDS = [(case, signal) for case in NODE_CASES for signal in OF_NODE[case.finding].needs]


def _ask(detector: Detector[Subject], subject: Subject) -> Found | None:
    return detector.ask(subject, 1.0) if detector.there(subject) else None


def _ask_node(detector: Detector[NodeSubject], subject: NodeSubject) -> Found | None:
    jobs = tuple(job for job in subject.jobs if detector.there(job))
    return detector.ask(replace(subject, jobs=jobs), 1.0) if jobs else None


def _named(pair: tuple[Case | NodeCase, Signal]) -> str:
    return f"{pair[0].finding}-{pair[1].name}"


def test_every_detector_has_a_row_and_a_case() -> None:
    """No detector tells what the catalogue does not know, or to somebody else than it says, or without a test."""
    for detector in JOB_DETECTORS:
        assert FINDINGS_BY_NAME[detector.finding].audience == CUSTOMER
    for detector in NODE_DETECTORS:
        assert FINDINGS_BY_NAME[detector.finding].audience == OPERATOR
    assert {case.finding for case in CASES} == set(OF_JOB)
    assert {case.finding for case in NODE_CASES} == set(OF_NODE)
    assert set(REMOVED) == set(SIGNALS)


@EVERY
def test_found_with_numbers(case: Case) -> None:
    """The finding is there, its evidence has figures, and a gain is a range above 1."""
    found = _ask(OF_JOB[case.finding], case.there)
    assert found is not None
    assert all(any(sign.isdigit() for sign in sentence) for sentence in found.evidence[:1])
    assert not MISCOUNTED.search(" ".join(found.evidence))
    if found.gain is not None:
        assert 1.0 <= found.gain[0] <= found.gain[1]


@EVERY
def test_silent_in_the_near_twin(case: Case) -> None:
    """What differs from it in the deciding point only has no finding."""
    assert _ask(OF_JOB[case.finding], case.twin) is None, case.about


@pytest.mark.parametrize("pair", NEEDS, ids=_named)
def test_not_there_without_a_signal(pair: tuple[Case, Signal]) -> None:
    """With one signal it needs removed the finding does not exist."""
    case, signal = pair
    assert _ask(OF_JOB[case.finding], REMOVED[signal](case.there)) is None


@EVERY_OF_NODE
def test_found_on_the_node(case: NodeCase) -> None:
    """The operator's finding is there and its evidence has figures."""
    found = _ask_node(OF_NODE[case.finding], case.there)
    assert found is not None
    assert any(sign.isdigit() for sign in found.evidence[0])
    assert not MISCOUNTED.search(" ".join(found.evidence))


@EVERY_OF_NODE
def test_silent_on_the_near_twin(case: NodeCase) -> None:
    """What differs from it in the deciding point only has no finding."""
    assert _ask_node(OF_NODE[case.finding], case.twin) is None, case.about


@pytest.mark.parametrize("pair", NODE_NEEDS, ids=_named)
def test_not_there_on_the_node_without_a_signal(pair: tuple[NodeCase, Signal]) -> None:
    """With one signal it needs removed from every job the operator's finding does not exist."""
    case, signal = pair
    jobs = tuple(map(REMOVED[signal], case.there.jobs))
    without = replace(case.there, jobs=jobs, topology=jobs[0].topology)
    assert _ask_node(OF_NODE[case.finding], without) is None


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
def test_a_healthy_job_has_no_finding(cards: int) -> None:
    """A training that computes on all the cards it has is left alone, by job and node detectors."""
    subject = healthy(cards)
    assert [one.finding for one in JOB_DETECTORS if _ask(one, subject)] == []
    assert [one.finding for one in NODE_DETECTORS if _ask_node(one, node(subject))] == []
