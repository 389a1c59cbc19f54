"""From causes and time split to one judgement: the order, the confidence, the sentences.

Order: idle, hung, throttled; else the largest of compute + overlap, communication + peer wait, memory, host wait. If
waiting for a peer decides, the class is that of the card waited for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.analysis import gaps
from gpumon.analysis.case import Case, Suspicion
from gpumon.analysis.causes import CAUSES, hung, idle, throttled_power
from gpumon.analysis.time_split import LARGE_MESSAGES, SERVES, Split
from gpumon.model.card import PowerKind
from gpumon.model.verdict import JobClass

CLASS_OF_GROUP = {
    "compute": JobClass.COMPUTE,
    "communication": JobClass.COMMUNICATION,
    "memory": JobClass.MEMORY,
    "host": JobClass.HOST,
}
WAITING_DETAILS = frozenset({"straggler", "pipeline_bubble"})
# A job whose first two shares are this close is a twin: either name would be a guess. A class is named where its lead
# is at least LEAST_LEAD, and wider than a twin's by LEAST_SIGMAS standard errors. LEAD_ERROR: what the model of levels
# and means leaves unsaid, as a share of the window.
TWIN_LEAD = 0.05
LEAST_LEAD = 0.105
LEAST_SIGMAS = 0.4
LEAD_ERROR = 0.06
# The same where a witness is missing: nothing tells how the work is cut up, or whether card memory is its limit.
BLIND_SIGMAS = 0.8
BLIND_ERROR = 0.12
LEAST_CONFIDENCE = 0.6
# A lead of this size leaves 0.37 of a coin's doubt. Worked out on seeds from 1,000,000 on, where a normal distribution
# is far too sure; the calibration error of `python -m benchmarks.accuracy --first 1000000` is what comes of it.
LEAD_SCALE = 0.07
OPEN = 0.1  # standard error of the lead
MATMULS_DRAW = 0.8  # of the limit: a copy kernel draws 404 of 600 W, decode 137 to 300 of 700 W
MOST_GAP = 0.1  # of the time without a kernel: with more of it kernels may be small and draw little
TOKENS_DRAW = 0.92  # the same of a server, also on cards of 300 W: prompts in between draw as much as matmuls do
# Levels from published ranges only, and communication by bytes and power means alone, without the test of exposure. In
# simulation such verdicts are nearly always right; no card was ever asked, so a tenth of doubt stays.
UNTESTED_CAP = 0.9
SHORTEST_S = 6.0  # of evidence for any judgement
STARTS_S = 60.0  # of a job's life: weights of 10 to 100 GB come from a local disk within it


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement of one window, before hysteresis."""

    job_class: JobClass = JobClass.UNKNOWN
    detail: str = ""
    confidence: float = 0.0
    evidence: tuple[str, ...] = ()
    against: str = ""


def _confidence(case: Case, result: Split, lead: float) -> float:
    """Return the confidence of the leading group from its lead, and cap it by what the witnesses can carry."""
    confidence = 1.0 - 0.5 * math.exp(-lead / (LEAD_SCALE + result.spread))
    # Where levels are not known but leave hardly a doubt (no card can wait, or hardly a byte moves) they need not be.
    learned = all(card.gpm is not None or (card.levels is not None and card.levels.learned) for card in case.cards)
    if result.first in {"compute", "communication"} and not learned and result.spread >= OPEN:
        confidence = min(confidence, UNTESTED_CAP)
    tested = learned or any(card.overlap.valid for card in case.cards)
    if result.first == "communication" and not tested and not case.waiting.culprits:
        confidence = min(confidence, UNTESTED_CAP)
    coverage = min((card.power_coverage for card in case.cards if card.power_kind is not PowerKind.NONE), default=1.0)
    return min(confidence, 0.6 + 0.4 * coverage) * min(1.0, 0.7 + 0.3 * case.evidence.seconds / 10.0)


def _lead(case: Case, result: Split, answers: list[Suspicion]) -> float:
    """Return the lead of what decides the class.

    That of the first group; within waiting, that for a peer's host or heat over that for bytes. Waiting for a peer that
    its host holds is the host's as well and no rival of it.
    """
    waits, moves = result.mean("peer_wait"), result.mean("communication")
    if case.waiting.by_host and result.first in {"host", "communication"}:
        own = result.mean("host_wait") if result.first == "host" else waits + moves
        works = result.mean("compute") + result.mean("overlap")
        lead = own - max(works, result.mean("memory"))
        return min(lead, own - moves if result.first == "host" else abs(waits - moves))
    throttled = any(answer.job_class is JobClass.THROTTLED for answer in answers)
    if result.first != "communication" or not throttled:
        return result.lead
    return min(result.lead, abs(waits - moves))


def _enough(case: Case, result: Split) -> bool:
    """One signal never makes a verdict: utilization and at least one witness beside it."""
    witnesses = result.signals & {"power", "gpm", "link", "memory"}
    if "utilization" not in result.signals and "gpm" not in result.signals:
        return False
    if len(case.cards) > 1:
        return bool(witnesses & {"power", "gpm"}) or (result.first == "host" and len(witnesses) >= 1)
    return bool(witnesses)


def _open_question(case: Case, result: Split, job_class: JobClass) -> str:
    """Return what a missing signal leaves open that would be another class; "" where nothing is."""
    if throttled_power.cannot_tell(case):
        return "the power cap is active and the limit cannot be read"
    several = len(case.cards) > 1 and job_class in {JobClass.COMMUNICATION, JobClass.COMPUTE}
    if several and all(hung.may_stand_still(card) for card in case.cards):
        return "kernels run at little power and nothing is seen to move: light work, an exchange, or a hang"
    unlearned = any(card.levels is None or not card.levels.learned for card in case.cards)
    pauses = any(card.gap > MOST_GAP for card in case.cards) and unlearned
    if several and job_class is JobClass.COMMUNICATION and "link" not in result.signals and pauses:
        return "no link can be seen, and power does not tell waiting for peers from small kernels with pauses"
    if not _told(case) and result.first_at(SERVES) != result.first_at(~SERVES):
        return "nothing tells whether the job trains or answers requests, and the same signals would say another class"
    if "memory" not in result.signals and not _draws_as_matmuls(case):
        if job_class is JobClass.COMPUTE:
            return "memory activity cannot be read, and power does not tell arithmetic from card memory"
        if several and job_class is JobClass.COMMUNICATION and _may_serve(case) and result.spread >= OPEN:
            return "memory activity cannot be read, and power does not tell waiting for peers from card memory"
    return ""


def _told(case: Case) -> bool:
    """Return True where anything says what the job is."""
    return bool(case.job.layout.framework or case.job.layout.asked)


def _may_serve(case: Case) -> bool:
    """Return True where the job answers requests, or nothing says what it is: tokens are bound by card memory."""
    return case.job.layout.framework in gaps.SERVERS or not _told(case)


def _close(case: Case, result: Split, lead: float) -> bool:
    """Return True where the lead may be no more than a twin's."""
    blind = "memory" not in result.signals or not _told(case)
    sigmas, error = (BLIND_SIGMAS, BLIND_ERROR) if blind else (LEAST_SIGMAS, LEAD_ERROR)
    return lead < LEAST_LEAD or lead - TWIN_LEAD < sigmas * math.hypot(result.spread, error)


def _draws_as_matmuls(case: Case) -> bool:
    """Return True where the cards draw more than kernels bound by memory do, or their job trains replicas."""
    if case.job.layout.asked in LARGE_MESSAGES:
        return True
    # A limit is missing in logs of other tools only, which lack most other signals as well: there power has to do.
    share = TOKENS_DRAW if _may_serve(case) else MATMULS_DRAW
    return all(not card.power.high_quarter < share * card.power_limit for card in case.cards)


def _class_of(case: Case, result: Split, answers: list[Suspicion]) -> JobClass:
    waits_for_peer = result.mean("peer_wait") >= result.mean("communication")
    if result.first == "communication" and waits_for_peer:
        if case.waiting.by_host:
            return JobClass.HOST
        if any(answer.job_class is JobClass.THROTTLED for answer in answers):
            return JobClass.THROTTLED
    return CLASS_OF_GROUP[result.first]


def _part(answer: Suspicion, result: Split) -> float:
    """Return how much of its class's time a detail can be the reason of: waiting in silence, or moving data."""
    if answer.job_class is not JobClass.COMMUNICATION:
        return 1.0
    waits, moves = result.mean("peer_wait"), result.mean("communication")
    return (waits if answer.detail in WAITING_DETAILS else moves) / max(waits + moves, 1e-6)


def _host_is_seen(case: Case, answers: list[Suspicion]) -> bool:
    """Return True where more than gaps speaks for the host: its figures, cards that wait for one, or moved weights.

    Several cards move gradients down to the host and up again as well, where they exchange them through it.
    """
    told = not math.isnan(case.host("gpu_process_cpus"))
    moved = any(answer.detail == "offload" for answer in answers) and (len(case.cards) == 1 or case.job.layout.offload)
    return told or case.waiting.by_host or moved


def _starts(case: Case) -> bool:
    """Return True where the job is new: it reads its weights and compiles, which every job does once and nobody needs
    to mend."""
    return case.evidence.to_s - case.job.first_seen_s < STARTS_S


def judge(case: Case) -> Judgement:
    """Return the judgement of one window; unknown where the evidence does not carry one."""
    answers: list[Suspicion] = [answer for answer in (cause(case) for cause in CAUSES) if answer is not None]
    for answer in answers:
        if answer.decisive:
            known = answer.weight >= LEAST_CONFIDENCE
            job_class, detail = (answer.job_class, answer.detail) if known else (JobClass.UNKNOWN, "")
            return Judgement(job_class, detail, answer.weight, answer.evidence, answer.against)
    result = case.split
    if result is None or case.evidence.seconds < SHORTEST_S:
        return Judgement()
    if idle.without_kernels(case):
        if _starts(case):
            return Judgement(evidence=("no kernel runs in the first minute of the job: it may still be loading",))
        if not idle.works_on_host(case):
            return Judgement(evidence=("no kernel runs; whether that lasts is not known yet",))
    if not _enough(case, result):
        return Judgement(evidence=("too few signals to tell",))
    job_class = _class_of(case, result, answers)
    host_path = next((answer for answer in answers if answer.detail == "host_path" and answer.weight >= 0.5), None)
    if job_class is JobClass.HOST and host_path is not None:
        job_class = JobClass.COMMUNICATION
    if job_class is JobClass.HOST and not _host_is_seen(case, answers):
        return Judgement(evidence=("no kernel runs for much of the time; nothing shows whether the host works",))
    open_question = _open_question(case, result, job_class)
    if open_question:
        return Judgement(evidence=(open_question,))
    lead = _lead(case, result, answers)
    confidence = _confidence(case, result, lead)
    mine = [answer for answer in answers if answer.job_class is job_class]
    best = max(mine, key=lambda answer: answer.weight * _part(answer, result), default=None)
    if host_path is not None and job_class is JobClass.COMMUNICATION:
        best = host_path
    evidence = best.evidence if best is not None else ()
    if _close(case, result, lead) or confidence < LEAST_CONFIDENCE:
        close = f"{result.first} leads by {100 * lead:.0f} % of the time only"
        return Judgement(JobClass.UNKNOWN, "", confidence, (close, *evidence), "")
    detail = best.detail if best is not None else ""
    return Judgement(job_class, detail, confidence, evidence, best.against if best is not None else "")
