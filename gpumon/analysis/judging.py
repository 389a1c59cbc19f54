"""One job through one tick: marks, window, evidence, judgement, the verdict that stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpumon.analysis import (
    advice,
    changes,
    cycles,
    evidence,
    gaps,
    host,
    hysteresis,
    period,
    period_signals,
    stillness,
    stragglers,
    throttling,
    time_split,
    uplinks,
    waiting,
    windows,
)
from gpumon.analysis.case import Case
from gpumon.analysis.changes import Marks
from gpumon.analysis.cycles import Whole
from gpumon.analysis.evidence import CardEvidence, JobEvidence
from gpumon.analysis.hysteresis import Standing
from gpumon.analysis.memory import CardMemory, JobMemory
from gpumon.analysis.period import PeriodPast
from gpumon.analysis.time_split import Split
from gpumon.analysis.verdict import judge
from gpumon.model.card import Card
from gpumon.model.job import Job
from gpumon.model.samples import CardTick, Floats, Tick
from gpumon.model.verdict import JobClass, Phase, TimeSplit, Verdict

LONGEST_S = 40.0  # of the window; long enough for many steps, short enough to follow a job
ROUND = 4  # ticks in which each card of a job is looked at once and the job is judged once
LOOKS_PER_TICK = 8  # cards; with a hundred jobs a round takes longer and a tick does not
CALM_ROUNDS = 2  # that one round takes of a job that has not changed for so long and is sure to be judged alike again
CALM_AFTER_S = 60.0
PERIOD_ROUNDS = 9  # between two looks at the period of a job's work: 36 s
PERIOD_ROUNDS_KNOWN = 18  # 72 s, once it is known
PERIOD_ROUNDS_YOUNG = 3  # 12 s, while what it does now is new
PERIOD_YOUNG_S = 80.0
PERIOD_BEFORE = 3  # ticks: two of looking, then the judgement that tells what was seen
SERVERS = frozenset({"vllm", "sglang", "llama.cpp", "tensorrt-llm"})  # requests and tokens, no steps
SAVE_BYTES_PER_SECOND = 20e6  # logs and metrics are far below
SLOW_PACE_S = 2.5  # logs bring a tick in 5 to 30 s: each of them is a round of its own
HOST_NAMES = (
    "gpu_process_cpus",
    "busiest_process_cpus",
    "relatives_cpus",
    "read_bytes_per_second",
    "write_bytes_per_second",
    "throttled_ratio",
    "io_wait_ratio",
    "io_pressure_ratio",
    "loopback_bytes_per_second",
)
# What the window's length alone leaves open: a share seen over n independent seconds.
SPLIT_FLOOR = 0.03
WINDOW_DOUBT = 0.2  # over the root of its seconds


@dataclass(frozen=True, slots=True)
class Around:
    """What one tick brings for every job; mappings by the cards' uuid."""

    tick: Tick
    cards: Mapping[str, Card]
    card_ticks: Mapping[str, CardTick]
    held: Mapping[str, CardMemory]  # after this tick
    length: int  # of a round, in ticks


@dataclass(frozen=True, slots=True)
class Turn:
    """What is looked at in this tick, so that the cost is spread evenly over a round."""

    number: int
    length: int

    @property
    def judged(self) -> bool:
        """Return True in the round's last tick."""
        return self.number % self.length == self.length - 1

    def of_card(self, number: int) -> bool:
        """Return True in a card's tick; few cards are looked at in the tick of the judgement."""
        return self.number % self.length == self.length - 1 - number % self.length


def _mark(job: Job, around: Around) -> Floats:
    """Return the job's mark of this second, as `changes.FIGURES` names its figures."""
    utilization, power, link, slowed = [], [], [], []
    for member in job.cards:
        card_tick = around.card_ticks.get(member.uuid)
        if card_tick is None or not card_tick.up:
            continue
        ring = card_tick.utilization.value
        utilization.append(float(ring.mean()) if ring.size else card_tick.reading("utilization_ratio"))
        watts = float(card_tick.power.value.mean()) if card_tick.power.value.size else card_tick.reading("power_watts")
        limit = card_tick.reading("power_limit_watts")
        power.append(watts / limit if limit > 0.0 else watts / 500.0)
        memory = around.held[member.uuid]
        link.append(memory.last_mean / memory.capacity.ceiling)
        slowed.append(throttling.held(memory.throttle))
    return changes.figures_of(utilization, power, link, slowed)


def _looks(
    job: Job, around: Around, past: Mapping[str, CardEvidence], marks: Marks, turn: Turn
) -> dict[str, CardEvidence]:
    """Return the newest evidence of each of the job's cards; those whose turn it is are looked at again."""
    now_s = around.tick.mono_s
    from_s = max(marks.from_s, now_s - LONGEST_S)
    looks: dict[str, CardEvidence] = {}
    for number, member in enumerate({card.uuid: card for card in job.cards}.values()):
        if member.uuid not in around.cards or member.uuid not in around.held:
            continue
        before = past.get(member.uuid)
        stale = before is None or before.window[0] < marks.from_s
        if before is not None and not turn.of_card(number) and not (stale and turn.judged):
            looks[member.uuid] = before
            continue
        memory = around.held[member.uuid]
        seen = evidence.card_evidence(
            around.cards[member.uuid],
            memory.windows,
            memory.capacity,
            memory.levels,
            up=memory.up,
            throttled=throttling.shares(memory.throttle, from_s),
            window=(from_s, now_s),
        )
        looks[member.uuid] = replace(seen, shared=member.shared, used=member.used)
    return looks


def _period(job: Job, around: Around, memory: JobMemory, turn: Turn) -> PeriodPast:
    """Return what is known of the period of a job's work after this tick, whose marks are in its memory."""
    now_s, held = around.tick.mono_s, around.held
    known = period.follow(memory.period, memory.marks.from_s)
    rounds = PERIOD_ROUNDS if math.isnan(known.step_s) else PERIOD_ROUNDS_KNOWN
    if now_s - memory.marks.from_s < PERIOD_YOUNG_S:
        rounds = PERIOD_ROUNDS_YOUNG
    since_look = (turn.number + PERIOD_BEFORE) % (turn.length * rounds)
    if since_look > 1 or job.layout.framework in SERVERS:
        return known
    present = since_look == 0
    stretch = period.stretch(known, now_s, windows.SPAN_S, present=present)
    said, fast = None, False
    if stretch is not None:
        own = [held[uuid].windows for uuid in {card.uuid: card for card in job.cards} if uuid in held and held[uuid].up]
        signals = period_signals.signals(own, *stretch)
        saving = host.mean(memory.host, "write_bytes_per_second", stretch[0]) >= SAVE_BYTES_PER_SECOND
        beats = period_signals.beats(own, *stretch)
        said, fast = period.look(signals, beats, *stretch, saving=saving), period_signals.fast_power(signals)
    # Nothing in the regime before says nothing of the present one.
    return period.extend(known, said, fast_power=fast) if present or said is not None else known


def round_length(looks: int) -> int:
    """Return how many ticks a round takes with so many cards of jobs to look at; a shared card counts for each job."""
    return max(ROUND, math.ceil(looks / LOOKS_PER_TICK))


def step(past: JobMemory, job: Job, around: Around, *, number: int) -> tuple[JobMemory, JobEvidence | None]:
    """Return the job's memory after one tick, and the evidence where the job was judged.

    Args:
        number: the job's place in the tick; jobs and their cards take turns.
    """
    tick, now_s = around.tick, around.tick.mono_s
    marks, _ = changes.extend(past.marks, now_s, _mark(job, around))
    turn = Turn(tick.seq + number, _own_length(past, marks, around.length, now_s))
    looks = _looks(job, around, past.looks, marks, turn)
    memory = replace(past, marks=marks, host=host.extend(past.host, job, tick.processes), looks=looks)
    period_past = _period(job, around, memory, Turn(tick.seq + number, around.length))
    if period_past is not memory.period:
        memory = replace(memory, period=period_past)
    if not turn.judged:
        return memory, None
    from_s = max(marks.from_s, now_s - LONGEST_S)
    seen = JobEvidence(
        from_s=from_s,
        to_s=now_s,
        cards=tuple(looks.values()),
        host={name: host.mean(memory.host, name, from_s) for name in HOST_NAMES},
        processes_known=job.kind.value != "unattributed",
        processes=len(job.processes),
        uplink_saturation=uplinks.saturation(tick.topology.uplinks, looks, around.held),
    )
    still = stillness.extend(past.still, seen, now_s)
    who = waiting.find(seen.working, job, seen.host)
    result = time_split.split(seen, who, job.layout, idle_gaps=_idle_gaps(seen, job))
    case = Case(job, seen, result, who, still.seconds(now_s), memory.period.step_s)
    judgement = judge(case)
    standing = hysteresis.settle(past.standing, judgement, marks.began_s, now_s)
    named = stragglers.named(case.cards, who, past.waiting)
    cycle = cycles.follow(past.cycle, judgement, result, named, regime_s=marks.began_s, now_s=now_s)
    cycle, whole = cycles.over(cycle, standing, marks.began_s, now_s)
    verdict = replace(_verdict(standing, case, result), stragglers=named)
    if whole is not None:
        verdict = _verdict_of_cycle(whole, case, verdict)
    memory = replace(
        memory,
        still=still,
        standing=standing,
        cycle=cycle,
        verdict=verdict,
        waiting=who,
        waited_s=now_s if who.culprits else past.waited_s,
        case=case,
    )
    return memory, seen


def _own_length(past: JobMemory, marks: Marks, length: int, now_s: float) -> int:
    """Return the length of the job's own round: half as many looks while nothing new is to be seen.

    The marks are taken every second whatever the round is: the first sign of a change, or of another judgement, brings
    the usual pace back.
    """
    if changes.pace_s(marks) > SLOW_PACE_S:
        return 1
    standing = past.standing
    calm = (
        now_s - marks.began_s >= CALM_AFTER_S
        and standing.rival_count == 0
        and standing.job_class is not JobClass.UNKNOWN
        and now_s - past.waited_s >= CALM_AFTER_S
        and not changes.stirs(marks)
    )
    return length * CALM_ROUNDS if calm else length


def _idle_gaps(seen: JobEvidence, job: Job) -> bool:
    """Return True where time without a kernel is nobody's work."""
    busy = [1.0 - card.gap for card in seen.working if not math.isnan(card.gap)]
    return bool(busy) and gaps.nothing_to_do(seen.host, job, sum(busy) / len(busy))


def _verdict(standing: Standing, case: Case, result: Split | None) -> Verdict:
    return replace(_named(standing, case), time_split=_time_split(standing, result, case))


def _verdict_of_cycle(whole: Whole, case: Case, now: Verdict) -> Verdict:
    """Return the verdict of a job that goes to and fro; `now`: that of its newest regime."""
    floor = SPLIT_FLOOR + WINDOW_DOUBT / math.sqrt(cycles.KEPT_S)
    return replace(
        _named(whole.standing, case),
        time_split=time_split.stated(whole.means, whole.spread, floor),
        stragglers=whole.stragglers,
        window_s=cycles.KEPT_S,
        phase=Phase(now.job_class, now.detail, now.since_s, now.stragglers),
    )


def _named(standing: Standing, case: Case) -> Verdict:
    said, said_zh = advice.for_verdict(standing.job_class, standing.detail)
    return Verdict(
        job_class=standing.job_class,
        detail=standing.detail,
        confidence=standing.confidence,
        since_s=standing.since_s,
        evidence=standing.evidence,
        against=standing.against,
        step_seconds=case.step_s,
        advice=said,
        advice_zh=said_zh,
        window_s=case.evidence.seconds,
    )


def _time_split(standing: Standing, result: Split | None, case: Case) -> TimeSplit | None:
    if standing.job_class is JobClass.IDLE:
        return TimeSplit(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, SPLIT_FLOOR)
    if result is None or case.evidence.seconds < 10.0:
        return None
    floor = SPLIT_FLOOR + WINDOW_DOUBT / math.sqrt(case.evidence.seconds)
    return time_split.stated(result.means, max(result.spreads.values()), floor)
