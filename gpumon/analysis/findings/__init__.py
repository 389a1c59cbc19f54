"""Findings: what can be wrong with a job or a node beside its class. The detectors, in the order they are asked.

Each asks one question of one job (`subject.Subject`) or of the whole node, rests on named signals (`signals`), and
answers in numbers. Names, severity, audience and words are the catalogue's (`model.findings`). `watch` decides when
they are asked, `holding` how long an answer stands.
"""

from gpumon.analysis.findings import card_state, cutting, exchange, host_side, node, usage
from gpumon.analysis.findings.detector import Detector
from gpumon.analysis.findings.subject import NodeSubject, Subject

JOB_DETECTORS: tuple[Detector[Subject], ...] = (
    *exchange.DETECTORS,
    *cutting.DETECTORS,
    *usage.DETECTORS,
    *host_side.DETECTORS,
    *card_state.DETECTORS,
)
NODE_DETECTORS: tuple[Detector[NodeSubject], ...] = node.DETECTORS

__all__ = ["JOB_DETECTORS", "NODE_DETECTORS"]
