"""Where a job's card time goes: seven shares with an uncertainty, and how often each class wins within it.

Nothing that is only known as an interval is turned into a point. Each unknown (the power of a waiting card, of a
working one, the rate of a full collective, how far work and transfer overlap, from where on memory is the limit) is
drawn from its interval at the same 64 fixed points of a low-discrepancy sequence, and the split is worked out for each
point. The mean over the points is the split, their spread its uncertainty, and the share of points in which a class
leads is the raw confidence. No randomness: the same window gives the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpumon.analysis.activity import work_share
from gpumon.analysis.evidence import CardEvidence, JobEvidence
from gpumon.analysis.gaps import SERVERS
from gpumon.analysis.overlap import FAST
from gpumon.analysis.waiting import Waiting
from gpumon.model.job import Layout
from gpumon.model.samples import Floats
from gpumon.model.verdict import TIME_STATES, TimeSplit

POINTS = 64
UNKNOWNS = 7
(WAIT_LEVEL, COMPUTE_LEVEL, CONTEXT_LEVEL, PLATEAU, CORRELATION, BOUND_LEVEL, OTHER_LEVEL) = range(UNKNOWNS)
# Memory-controller activity: kernels bound by memory (decode 0.80 to 0.87, copies 0.9), large matmuls 0.3 to 0.6
# (published dmon samples). In training, work above the edge is bound by memory as a whole.
MEMORY_EDGE = (0.62, 0.78)
EDGE_WIDTH = 0.06
# A server mixes decode, bound by memory, with prompts, whose matmuls are large: there the activity is a mix.
MEMORY_BOUND = (0.80, 0.90)
NOT_BOUND = (0.20, 0.45)
MOST_ACTIVITY = 0.92  # of a copy kernel
TRANSFER_ACTIVITY = 0.05  # of a card that only exchanges (recorded 4 % in a hanging collective, 8 to 10 % in prefill)
# DRAM activity (GPM) rarely passes 0.8 even in copies; matmuls 0.15 to 0.45.
DRAM_EDGE = (0.45, 0.62)
DRAM_BOUND = (0.60, 0.85)
DRAM_NOT_BOUND = (0.15, 0.45)
# Launches and small copies of a card that works alone move 30 to 100 MB/s at most (DCGM sample page); the boundaries of
# stages are not more. Between cards of one job this much is an exchange.
EXCHANGE_BYTES_PER_SECOND = 10e6
SAME_POWER = 0.03  # of the limit
SOMETIMES = 0.15  # of the time at the upper level: then that is what work draws
BUSY_PART = (0.1, 0.85)  # share of time the link is busy: at the ends the comparison has no second side
# Groups as CONTRACT compares them.
GROUPS = ("compute", "communication", "memory", "host")
GROUP_ROWS = tuple(
    [TIME_STATES.index(state) for state in states]
    for states in (("compute", "overlap"), ("communication", "peer_wait"), ("memory",), ("host_wait",))
)
Z_90 = 1.64  # two-sided 90 % of a normal distribution
MOST_UNCERTAIN = 0.15  # CONTRACT: else the split is absent as a whole


def _points() -> Floats:
    """Return the fixed points, shape (UNKNOWNS, POINTS), in 0..1. Source: Kronecker sequence on the plastic number's
    generalisation (Roberts 2018)."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (UNKNOWNS + 1))
    steps = (1.0 / root) ** np.arange(1, UNKNOWNS + 1)
    return (0.5 + np.outer(steps, np.arange(1, POINTS + 1))) % 1.0


U = _points()


@dataclass(frozen=True, slots=True)
class Split:
    """Shares at every point, shape (POINTS,), mean over the job's cards; and what they say together."""

    shares: dict[str, Floats]
    means: dict[str, float]
    spreads: dict[str, float]  # standard deviations over the points
    votes: dict[str, float]  # group -> share of points in which it leads
    lead: float  # mean share of the first group over that of the second
    first: str  # the leading group
    spread: float  # standard deviation of the lead over the points
    signals: frozenset[str]  # what the split rests on: power, gpm, link, memory, utilization

    def mean(self, state: str) -> float:
        """Return the mean share of a state."""
        return self.means[state]


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the split needs to know of the job's layout."""

    serving: bool
    split_in_layers: bool  # tensor parallel: every layer waits for its peers
    staged: bool  # pipeline: stages wait for each other in silence
    distributed: bool  # ranks of one launch
    idle_gaps: bool  # time without a kernel is nobody's work on the host either


def _draw(interval: tuple[float, float], unknown: int) -> Floats:
    drawn: Floats = interval[0] + (interval[1] - interval[0]) * U[unknown]
    return drawn


def _same_work(card: CardEvidence, split_in_layers: bool) -> bool:
    """Return True where power does not fall while the link is busy although the link comes and goes.

    A card that waited while the link is busy would work while it is quiet; one that draws the same in both does the
    same in both, and what it does is work, however little power it takes. Not so with tensor parallelism, where the
    quiet time is made of small messages, nor where a third level shows that both are waiting.
    """
    test, levels, humps = card.overlap, card.levels, card.power
    if not test.valid or levels is None or split_in_layers:
        return False
    if not BUSY_PART[0] <= sum(card.pcie.busy) / 2 <= BUSY_PART[1]:
        return False
    limit = card.power_limit if not math.isnan(card.power_limit) else card.power_mean / 0.5
    works_elsewhere = levels.learned and SOMETIMES <= humps.share_high <= 1.0 - SOMETIMES
    falls = test.watts_quiet - test.watts_busy > SAME_POWER * limit + 2.0 * test.standard_error
    return not falls and not works_elsewhere


def _work(card: CardEvidence, gap: float, split_in_layers: bool) -> tuple[Floats, str]:
    """Return the share of time that is real work at each point, and the signal that told."""
    resident = 1.0 - gap
    shown = card.levels is not None and card.levels.learned and card.power_kind in FAST
    if card.gpm is not None and not math.isnan(card.sm_active) and not shown:
        waiting, computing = _draw(card.gpm.waiting, WAIT_LEVEL), _draw(card.gpm.computing, COMPUTE_LEVEL)
        return work_share(np.full(POINTS, card.sm_active), gap, np.zeros(POINTS), waiting, computing), "gpm"
    if card.levels is None or math.isnan(card.power_mean):
        return resident * U[WAIT_LEVEL], ""
    context = _draw(card.levels.context, CONTEXT_LEVEL)
    waiting, computing = _draw(card.levels.waiting, WAIT_LEVEL), _draw(card.levels.computing, COMPUTE_LEVEL)
    if _same_work(card, split_in_layers):
        own = (card.power_mean - gap * context) / max(resident, 1e-6)
        waiting, computing = np.minimum(waiting, 0.7 * own), own * (0.98 + 0.1 * U[COMPUTE_LEVEL])
    return work_share(np.full(POINTS, card.power_mean), gap, context, waiting, computing), "power"


def _memory_bound(card: CardEvidence, work: Floats, serving: bool) -> Floats:
    """Return the share of time in kernels bound by memory at each point."""
    if not math.isnan(card.dram_active):
        activity, edge, bound, other = card.dram_active, DRAM_EDGE, DRAM_BOUND, DRAM_NOT_BOUND
    elif not math.isnan(card.memory_controller):
        activity, edge, bound, other = card.memory_controller, MEMORY_EDGE, MEMORY_BOUND, NOT_BOUND
    else:
        return np.zeros(POINTS)
    humps = card.memory_humps
    if humps.two and humps.high >= edge[0] and humps.low <= other[1]:
        # Phases longer than the sensor's refresh show both levels.
        seen = (activity - humps.low) / (humps.high - humps.low)
        both: Floats = np.minimum(work, np.full(POINTS, seen))
        return both
    if serving:
        upper, lower = _draw(bound, BOUND_LEVEL), _draw(other, OTHER_LEVEL)
        mixed: Floats = np.clip((activity - work * lower) / (upper - lower), 0.0, work)
        return mixed
    in_work = activity / np.maximum(work, max(activity, 1e-6))
    whole: Floats = work / (1.0 + np.exp(-(in_work - _draw(edge, BOUND_LEVEL)) / EDGE_WIDTH))
    return whole


def _busy(card: CardEvidence) -> tuple[Floats, bool]:
    """Return the share of time in which the card's links move data at each point, and whether that is known."""
    links = [link for link in (card.pcie, card.nvlink) if link is not None and link.known and not link.quiet]
    known = card.pcie.known or card.nvlink is not None
    if not links:
        return np.zeros(POINTS), known
    busy = np.zeros(POINTS)
    for link in links:
        low, high = max(link.busy[0], 1e-4), max(link.busy[1], 1e-4)
        # Even in the logarithm: where phases are shorter than slots the rate of a collective is known to a factor.
        busy = np.maximum(busy, low * (high / low) ** U[PLATEAU])
    return busy, known


def _overlap(card: CardEvidence, busy: Floats, work: Floats) -> Floats:
    """Return the share of time in which work and transfer run together.

    Where the test of `overlap` is valid its power while the link is busy decides. Elsewhere only the bounds of two
    shares of one hour hold: at least busy + work - 1, at most the smaller.
    """
    levels = card.levels
    if card.overlap.valid and levels is not None:
        waiting = np.minimum(_draw(levels.waiting, WAIT_LEVEL), max(card.overlap.watts_busy, 1.0))
        computing = np.maximum(_draw(levels.computing, COMPUTE_LEVEL), card.overlap.watts_busy)
        at_busy = np.clip((card.overlap.watts_busy - waiting) / np.maximum(computing - waiting, 1e-9), 0.0, 1.0)
        tested: Floats = np.minimum(busy * at_busy, work)
        return tested
    least = np.maximum(0.0, busy + work - 1.0)
    most = np.minimum(busy, work)
    between: Floats = least + (most - least) * U[CORRELATION]
    return between


def _of_card(
    card: CardEvidence, waiting: Waiting, can_wait: Floats, layout: _Layout
) -> tuple[dict[str, Floats], set[str]]:
    """Return one card's shares at every point, and the signals they rest on."""
    signals: set[str] = set()
    gap_known = not math.isnan(card.gap)
    gap = card.gap if gap_known else 0.0
    if gap_known:
        signals.add("utilization")
    resident = 1.0 - gap
    work, signal = _work(card, gap, layout.split_in_layers)
    signals.add(signal or "none")
    activity = card.memory_controller if math.isnan(card.dram_active) else card.dram_active
    if not math.isnan(activity):
        signals.add("memory")
        # Memory is read and written by real work; a waiting kernel leaves it alone, a transfer nearly so, and no kernel
        # keeps it busier than a copy.
        work = np.maximum(work, np.minimum(resident, max(0.0, activity - TRANSFER_ACTIVITY) / MOST_ACTIVITY))
    busy, busy_known = _busy(card)
    if busy_known:
        signals.add("link")
    # Copy engines do not count as kernels: what moves while no kernel runs is the host's doing.
    collective = np.minimum(busy, resident)
    overlap = _overlap(card, collective, work)
    exposed = np.minimum(collective - overlap, resident - work)
    rest = np.maximum(0.0, resident - work - exposed)
    alone = work - overlap

    # A kernel is resident, draws little and moves nothing. A card that no peer can hold up is simply working lightly.
    peer = np.zeros(POINTS)
    if waiting.in_rotation or (waiting.culprits and not waiting.by_link and card.uuid not in waiting.culprits):
        peer, rest = rest, peer
    latency = np.minimum(rest, _small_messages(card, collective, layout)) * can_wait
    alone = alone + rest - latency
    memory = np.minimum(_memory_bound(card, alone + overlap, layout.serving), alone)
    host = np.full(POINTS, gap)
    shares = {
        "compute": alone - memory,
        "communication": exposed + latency,
        "overlap": overlap,
        "memory": memory,
        "host_wait": host,
        "peer_wait": peer,
        "idle": np.zeros(POINTS),
    }
    if layout.idle_gaps:
        shares["idle"], shares["host_wait"] = host, np.zeros(POINTS)
        return shares, signals
    if waiting.in_turn:
        shares["peer_wait"], shares["host_wait"] = peer + host, np.zeros(POINTS)
    elif waiting.culprits and card.uuid not in waiting.culprits:
        # While a peer is held by its host the card's own gaps are also waits for it.
        shares["peer_wait"] = peer + host * waiting.gap_follows
        shares["host_wait"] = host * (1.0 - waiting.gap_follows)
    return shares, signals


def _can_wait(cards: list[CardEvidence], layout: _Layout) -> Floats:
    """Return, at each point, the share of quiet low-power residence that can be waiting for other cards.

    A card without peers cannot wait for one. Ranks of one launch, and cards that exchange something, can; where nothing
    is seen to move, or nothing can be seen, both are possible: half of the points say so.
    """
    if len(cards) < 2:
        return np.zeros(POINTS)
    links = [link for card in cards for link in (card.pcie, card.nvlink) if link is not None and link.known]
    if layout.distributed or any(link.rate >= EXCHANGE_BYTES_PER_SECOND for link in links):
        return np.ones(POINTS)
    perhaps: Floats = (U[PLATEAU] > 0.5).astype(np.float64)
    return perhaps


def _small_messages(card: CardEvidence, busy: Floats, layout: _Layout) -> Floats:
    """Return the most time that small messages can take at each point.

    Waiting for them is accompanied by them: where slots are empty nobody exchanges anything. Not where power shows a
    level of waiting of its own, nor in a pipeline, whose stages wait in silence, nor where the links cannot be seen.
    """
    links = [link for link in (card.pcie, card.nvlink) if link is not None and link.known]
    shown = card.levels is not None and card.levels.learned
    if layout.staged or shown or not links:
        return np.ones(POINTS)
    present: Floats = np.maximum(0.0, max(link.present for link in links) - busy)
    return present


def split(evidence: JobEvidence, waiting: Waiting, layout: Layout, *, idle_gaps: bool) -> Split | None:
    """Return the job's time split, or None where no card told anything.

    Args:
        layout: as far as the job's command line says; "" and 0 where it does not.
        idle_gaps: while no kernel runs nothing of the job works on the host either.
    """
    tensor = layout.tensor_parallel > 1 or layout.asked in {"tp", "tp+pp"}
    staged = layout.pipeline_parallel > 1 or layout.asked in {"pp", "tp+pp", "device_map"}
    shape = _Layout(
        serving=layout.framework in SERVERS,
        split_in_layers=tensor,
        staged=staged,
        distributed=tensor or staged or layout.world_size > 1,
        idle_gaps=idle_gaps,
    )
    cards = [card for card in evidence.cards if card.up]
    if not cards:
        return None
    can_wait = _can_wait(cards, shape)
    totals = np.zeros((len(TIME_STATES), POINTS))
    signals: set[str] = set()
    for card in cards:
        shares, used = _of_card(card, waiting, can_wait, shape)
        signals |= used
        for number, state in enumerate(TIME_STATES):
            totals[number] += shares[state]
    totals /= len(cards)
    means = totals.mean(axis=1)
    deviations = np.sqrt(np.maximum(0.0, (totals * totals).mean(axis=1) - means * means))
    groups = np.stack([totals[rows].sum(axis=0) for rows in GROUP_ROWS])
    group_means = groups.mean(axis=1)
    order = np.argsort(group_means)
    first, second = int(order[-1]), int(order[-2])
    leads = groups[first] - np.delete(groups, first, axis=0).max(axis=0)
    won = np.bincount(groups.argmax(axis=0), minlength=len(GROUPS)) / POINTS
    return Split(
        shares=dict(zip(TIME_STATES, totals, strict=True)),
        means=dict(zip(TIME_STATES, means.tolist(), strict=True)),
        spreads=dict(zip(TIME_STATES, deviations.tolist(), strict=True)),
        votes=dict(zip(GROUPS, won.tolist(), strict=True)),
        lead=float(group_means[first] - group_means[second]),
        first=GROUPS[first],
        spread=float(leads.std()),
        signals=frozenset(signals - {"none"}),
    )


def stated(result: Split, floor: float) -> TimeSplit | None:
    """Return the split with its uncertainty, or None where it cannot be stated within 0.15.

    `floor` is the least uncertainty the window's length and coverage allow.
    """
    means = {state: min(1.0, max(0.0, mean)) for state, mean in result.means.items()}
    total = sum(means.values())
    uncertainty = max(floor, Z_90 * max(result.spreads.values()))
    if total <= 0.0 or uncertainty > MOST_UNCERTAIN:
        return None
    return TimeSplit(**{state: share / total for state, share in means.items()}, uncertainty=uncertainty)
