"""A finding holds after several looks and goes slowly: it never comes and goes with one window."""

from __future__ import annotations

from gpumon.analysis.findings import holding
from gpumon.analysis.findings.detector import HELD_EDGE, Detector, Found
from gpumon.analysis.findings.holding import KEPT_UNASKED_S, MISSES, Held
from gpumon.analysis.findings.subject import Subject

LOOK_S = 10.0
ONE: tuple[Detector[Subject], ...] = (Detector("tp_over_pcie", (), lambda subject, edge: None, looks=2),)


class _Looks:
    """Looks one after the other at a job of which only the answer is given."""

    def __init__(self) -> None:
        self.held = Held()
        self.now_s = 0.0
        self.edges: list[float] = []

    def look(self, found: bool, *, there: bool = True, askable: bool = True) -> bool:
        """Look once; return whether the finding is told."""

        def ask(detector: Detector[Subject], edge: float) -> Found | None:
            self.edges.append(edge)
            return Found(("8 cards",), (1.2, 1.5)) if found else None

        self.now_s += LOOK_S
        self.held = holding.settle(
            self.held, ONE, ask, there=lambda _: there, askable=lambda _: askable, now_s=self.now_s
        )
        return bool(self.held.findings)


def test_one_look_is_not_enough() -> None:
    """A finding that the next look does not confirm was never told."""
    looks = _Looks()
    assert [looks.look(found) for found in (True, False, True, False, True)] == [False] * 5


def test_two_looks_in_a_row_tell_it() -> None:
    """The second look in a row tells it, with the row's words and the detector's numbers."""
    looks = _Looks()
    assert [looks.look(True), looks.look(True)] == [False, True]
    (finding,) = looks.held.findings
    assert (finding.finding, finding.severity, finding.evidence) == ("tp_over_pcie", "warning", ("8 cards",))
    assert finding.gain == (1.2, 1.5) and finding.title_zh


def test_it_stays_through_single_misses_and_goes_after_three() -> None:
    """Misses in between do not take it away; so many in a row do."""
    looks = _Looks()
    for _ in range(2):
        looks.look(True)
    assert [looks.look(found) for found in (False, True, False, False, True)] == [True] * 5
    assert [looks.look(False) for _ in range(MISSES)] == [True] * (MISSES - 1) + [False]


def test_thresholds_ease_while_it_holds() -> None:
    """The question is put with easier thresholds only once the finding holds."""
    looks = _Looks()
    for _ in range(3):
        looks.look(True)
    assert looks.edges == [1.0, 1.0, HELD_EDGE]


def test_without_its_signals_it_is_gone_at_once() -> None:
    """What it rests on has vanished: so has the finding."""
    looks = _Looks()
    for _ in range(2):
        looks.look(True)
    assert not looks.look(True, there=False)


def test_it_outlasts_a_verdict_that_is_being_settled() -> None:
    """While nobody asks it stays for a minute, and then goes."""
    looks = _Looks()
    for _ in range(2):
        looks.look(True)
    unasked = [looks.look(False, askable=False) for _ in range(int(KEPT_UNASKED_S / LOOK_S))]
    assert unasked[0] and unasked[-2] and not unasked[-1]
