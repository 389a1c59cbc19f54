"""Where a job's card time goes: seven shares with an uncertainty, and how often each class wins within it.

Nothing that is only known as an interval is turned into a point. Each unknown (the power of a waiting card, of a
working one, the rate of a full collective, how far work and transfer overlap, from where on memory is the limit) is
drawn from its interval at the same 64 fixed points of a low-discrepancy sequence, and the split is worked out for each
point. The mean over the points is the split, and their spread its uncertainty; points at which the witnesses fit each
other badly, or that would be unusual, count less. No randomness: the same window gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpumon.analysis import gaps, work
from gpumon.analysis.evidence import BOTH_WAYS, FLAT, LAUNCH_BYTES_PER_SECOND, CardEvidence, JobEvidence
from gpumon.analysis.points import COMPUTE_LEVEL, CORRELATION, PLATEAU, POINTS, WAIT_LEVEL, U, draw, draw_factor
from gpumon.analysis.waiting import Waiting
from gpumon.analysis.work import Work
from gpumon.model.job import Layout
from gpumon.model.samples import Floats
from gpumon.model.verdict import TIME_STATES, TimeSplit

# Replicas exchange their gradients in buckets of 25 MB (PyTorch's default) or whole: no messages that are all latency.
LARGE_MESSAGES = frozenset({"ddp", "zero1", "zero2", "zero3", "fsdp"})
# Groups as CONTRACT compares them.
GROUPS = ("compute", "communication", "memory", "host")
GROUP_ROWS = tuple(
    [TIME_STATES.index(state) for state in states]
    for states in (("compute", "overlap"), ("communication", "peer_wait"), ("memory",), ("host_wait",))
)
LIGHT = 0.05  # of the time: work that draws little changes what memory activity says
SHORT_SLOT_S = 0.06  # shorter than nearly any step
LEVEL_KNOWN = 0.7  # of the share of time that the level says
BUSY_DOUBT = 1.08  # of the share of time the link is busy
TURNS_DOUBT = 0.1  # of the time: how far work and exchange that take turns may seem to run together
USUAL_OPTIMIZER = 0.12  # of the time, in kernels bound by memory
USUAL_LIGHT = 0.12  # of the time, in kernels that draw no more than waiting does
SERVES: npt.NDArray[np.bool_] = U[CORRELATION] > 0.5  # points at which a job that nobody can name answers requests
Z_90 = 1.64  # two-sided 90 % of a normal distribution
MOST_UNCERTAIN = 0.15  # CONTRACT: else the split is absent as a whole


@dataclass(frozen=True, slots=True)
class Split:
    """Shares at every point, shape (POINTS,), mean over the job's cards; and what they say together."""

    shares: dict[str, Floats]
    weights: Floats  # of the points, sum 1
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

    def between(self, states: tuple[str, ...], outside: float) -> tuple[float, float]:
        """Return the range of the time spent in these states together, without `outside` of the weight at each end."""
        together = sum((self.shares[state] for state in states), start=np.zeros(POINTS))
        order = np.argsort(together)
        reached = np.cumsum(self.weights[order])
        first, last = np.searchsorted(reached, (outside, 1.0 - outside))
        return float(together[order[first]]), float(together[order[min(last, POINTS - 1)]])

    def first_at(self, points: npt.NDArray[np.bool_]) -> str:
        """Return the group that leads at some of the points, shape (POINTS,)."""
        weights = np.where(points, self.weights, 0.0)
        totals = {
            group: sum(float(self.shares[TIME_STATES[row]] @ weights) for row in rows)
            for group, rows in zip(GROUPS, GROUP_ROWS, strict=True)
        }
        return max(totals, key=lambda group: totals[group])


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the split needs to know of the job's layout."""

    serving: Floats  # 1 at points where it answers requests; half of them where nothing says what it is
    split_in_layers: bool  # tensor parallel: every layer waits for its peers
    staged: bool  # pipeline: stages wait for each other in silence
    told: bool  # something says how the work is cut up
    large_messages: bool  # collectives of replicas: none of them waits for latency
    distributed: bool  # ranks of one launch
    through_host: bool  # collectives over gloo or the loopback network
    idle_gaps: bool  # lulls without a kernel are nobody's work on the host either


def _busy(card: CardEvidence, layout: _Layout) -> tuple[Floats, bool]:
    """Return the share of time in which the card exchanges bytes with others at each point, and whether it is known."""
    links = [
        link
        for link in (card.pcie, card.nvlink)
        if link is not None and link.known and link.plateau >= LAUNCH_BYTES_PER_SECOND
    ]
    known = card.pcie.known or card.nvlink is not None
    busy = np.zeros(POINTS)
    for link in links:
        low, high = max(link.busy[0], 1e-4), max(link.busy[1], 1e-4)
        if layout.staged:
            # A stage hands over one tensor at a time at the link's best rate, and waits for the next.
            low = max(link.shortest, 1e-4)
            high = math.sqrt(low * max(low, high))
        elif layout.split_in_layers:
            # A layer's message lasts a few milliseconds: what slots level off at is a mean of messages and of the work
            # between them, and the link itself may be as fast as links are.
            low = min(low, max(link.shortest, 1e-4))
        elif link.lesser < BOTH_WAYS:
            # Collectives move as much each way. The rest is copied by an engine from or to the host, beside kernels.
            low, high = low * link.lesser + 1e-4, high * link.lesser + 1e-4
        level = layout.large_messages and not link.humped and link.flat_top <= FLAT
        if level and link.slot_s <= SHORT_SLOT_S:
            # Buckets that fill slot after slot to one level move at that rate. Longer slots may hold a burst each.
            low = max(low, LEVEL_KNOWN * high)
        # Where phases are shorter than slots the rate of a collective is known to a factor only.
        busy = np.maximum(busy, draw_factor((low, high), PLATEAU))
    return busy, known


def _overlap(card: CardEvidence, busy: Floats, work: Floats) -> Floats:
    """Return the share of time in which work and transfer run together.

    Where the test of `overlap` is valid its power while the link is busy decides. Elsewhere only the bounds of two
    shares of one hour hold: at least busy + work - 1, at most the smaller.
    """
    levels = card.levels
    if card.overlap.valid and levels is not None:
        waiting = np.minimum(draw(levels.waiting, WAIT_LEVEL), max(card.overlap.watts_busy, 1.0))
        computing = np.maximum(draw(levels.computing, COMPUTE_LEVEL), card.overlap.watts_busy)
        at_busy = np.clip((card.overlap.watts_busy - waiting) / np.maximum(computing - waiting, 1e-9), 0.0, 1.0)
        tested: Floats = np.minimum(busy * at_busy, work)
        return tested
    least = np.maximum(0.0, busy + work - 1.0)
    most = np.minimum(busy, work)
    between: Floats = least + (most - least) * U[CORRELATION]
    return between


def _exchange(card: CardEvidence, busy: Floats, done: Work, waiting: Waiting, layout: _Layout) -> tuple[Floats, Floats]:
    """Return the shares of time in which bytes move beside work, and in which they move and the work stands still."""
    # Copy engines do not count as kernels: what moves while no kernel runs is the host's doing.
    resident = 1.0 - (0.0 if math.isnan(card.gap) else card.gap)
    collective = np.minimum(busy, resident)
    stands = resident - done.total
    if layout.split_in_layers:
        return np.zeros(POINTS), np.minimum(collective, stands)
    if not layout.large_messages:
        overlap = _overlap(card, collective, done.total)
        return overlap, np.minimum(collective - overlap, stands)
    if waiting.by_host:
        overlap = _overlap(card, collective, done.total)
    else:
        # A replica's card that does not work waits for the exchange, and the exchange moves bytes meanwhile.
        overlap = np.clip(collective - stands, 0.0, done.total)
    # Two figures of one thing, and the lesser of the two is too low on average.
    return overlap, np.minimum(BUSY_DOUBT * (collective - overlap), stands)


def _of_card(
    card: CardEvidence, waiting: Waiting, can_wait: Floats, layout: _Layout
) -> tuple[dict[str, Floats], set[str], Floats]:
    """Return one card's shares at every point, the signals they rest on, and how unusual each point is.

    Where one reading leaves two explanations the usual one counts more: passes of a training are many times as long as
    its optimizer, and its cards draw as much as others do at work. In units of the logarithm of the odds.
    """
    gap_known = not math.isnan(card.gap)
    gap = card.gap if gap_known else 0.0
    resident = 1.0 - gap
    done = work.of_card(
        card,
        gap,
        serving=layout.serving,
        split_in_layers=layout.split_in_layers,
        staged=layout.staged or not layout.told,
        waits=can_wait,
    )
    busy, busy_known = _busy(card, layout)
    overlap, exposed = _exchange(card, busy, done, waiting, layout)
    signals = set(done.signals)
    if gap_known:
        signals.add("utilization")
    if busy_known and not card.nvlink_unseen:
        signals.add("link")

    # A kernel is resident, draws little and moves nothing. A card that no peer can hold up is simply working lightly.
    rest = np.maximum(0.0, resident - done.total - exposed)
    peer = np.zeros(POINTS)
    held_up = waiting.culprits and not waiting.by_link and card.uuid not in waiting.culprits
    shown = layout.large_messages and _shows_waiting(card) and not card.nvlink_unseen
    if layout.staged or waiting.in_rotation or held_up or shown:
        peer, rest = rest * can_wait, rest * (1.0 - can_wait)
    latency = np.minimum(rest, _small_messages(card, busy, layout)) * can_wait
    light = rest - latency
    alone = done.total - overlap + light
    memory = done.memory
    if light.max() > LIGHT:
        memory = np.where(light > LIGHT, work.memory_of(card, done.total + light, serving=layout.serving), memory)
    memory = np.minimum(memory, alone)
    # Between the kernels of one token or step the host works, whoever waits for a request: only whole lulls are idle.
    idle = min(gap, card.lull) if layout.idle_gaps else 0.0
    shares = {
        "compute": alone - memory,
        "communication": exposed + latency,
        "overlap": overlap,
        "memory": memory,
        **_gaps(gap - idle, waiting),
        "idle": np.full(POINTS, idle),
    }
    shares["peer_wait"] = shares["peer_wait"] + peer
    if layout.through_host:
        # Gradients go down to the host, are added up there and come up again: nothing else happens meanwhile.
        shares["communication"] = exposed + latency + gap - idle
        shares["host_wait"], shares["peer_wait"] = np.zeros(POINTS), peer
    doubt = done.misfit + (1.0 - layout.serving) * memory / USUAL_OPTIMIZER
    if layout.large_messages:
        doubt = doubt + light / USUAL_LIGHT
    if layout.split_in_layers:
        # A layer's collective needs that layer's result and is needed by the next: the two take turns.
        doubt = doubt + np.maximum(0.0, np.minimum(busy, resident) + done.total - resident) / TURNS_DOUBT
    return shares, signals, doubt


def _gaps(gap: float, waiting: Waiting) -> dict[str, Floats]:
    """Return who is waited for while the card has no kernel: a peer whose turn it is, else the card's own host.

    Who waits for a late peer does so inside the collective's kernel.
    """
    of_peer = gap if waiting.in_turn else 0.0
    return {"host_wait": np.full(POINTS, gap - of_peer), "peer_wait": np.full(POINTS, of_peer)}


def _shows_waiting(card: CardEvidence) -> bool:
    """Return True where the card's power showed what it draws while it waits."""
    return card.levels is not None and card.levels.learned


def _serving(layout: Layout) -> Floats:
    if layout.framework in gaps.SERVERS:
        return np.ones(POINTS)
    told = layout.framework or layout.asked
    return np.zeros(POINTS) if told else SERVES.astype(np.float64)


def _can_wait(cards: list[CardEvidence], layout: _Layout) -> Floats:
    """Return, at each point, the share of quiet low-power residence that can be waiting for other cards.

    A card without peers cannot wait for one. Ranks of one launch, and cards that exchange something, can; where nothing
    is seen to move, or nothing can be seen, both are possible: half of the points say so.
    """
    if len(cards) < 2:
        return np.zeros(POINTS)
    links = [link for card in cards for link in (card.pcie, card.nvlink) if link is not None]
    if layout.distributed or any(link.exchanges for link in links):
        return np.ones(POINTS)
    perhaps: Floats = (U[PLATEAU] > 0.5).astype(np.float64)
    return perhaps


def _small_messages(card: CardEvidence, busy: Floats, layout: _Layout) -> Floats:
    """Return the most time that small messages can take at each point.

    Waiting for them is accompanied by them: where slots are empty nobody exchanges anything. Not where power shows a
    level of waiting of its own, nor in a pipeline, whose stages wait in silence, nor where the links cannot be seen.
    """
    if layout.large_messages and not card.nvlink_unseen and card.pcie.known:
        return np.zeros(POINTS)
    links = [link for link in (card.pcie, card.nvlink) if link is not None and link.known]
    if layout.staged or _shows_waiting(card) or not links or card.nvlink_unseen:
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
        serving=_serving(layout),
        split_in_layers=tensor,
        staged=staged or waiting.in_turn,
        told=bool(layout.framework or layout.asked),
        large_messages=layout.asked in LARGE_MESSAGES and not tensor and not staged,
        distributed=tensor or staged or layout.world_size > 1,
        through_host=len(evidence.working) > 1 and gaps.through_host(evidence.host, layout),
        idle_gaps=idle_gaps,
    )
    cards = list(evidence.working)
    if not cards:
        return None
    # Who was found to wait can wait, whatever layout and links leave open.
    can_wait = np.ones(POINTS) if waiting.culprits or waiting.in_rotation else _can_wait(cards, shape)
    totals = np.zeros((len(TIME_STATES), POINTS))
    doubt = np.zeros(POINTS)
    signals: set[str] = set()
    for card in cards:
        shares, used, unusual = _of_card(card, waiting, can_wait, shape)
        signals |= used
        doubt += unusual / len(cards)
        for number, state in enumerate(TIME_STATES):
            totals[number] += shares[state]
    totals /= len(cards)
    weights = np.exp(doubt.min() - doubt)
    weights /= weights.sum()
    means = totals @ weights
    deviations = np.sqrt(np.maximum(0.0, (totals * totals) @ weights - means * means))
    groups = np.stack([totals[rows].sum(axis=0) for rows in GROUP_ROWS])
    group_means = groups @ weights
    order = np.argsort(group_means)
    first, second = int(order[-1]), int(order[-2])
    leads = groups[first] - np.delete(groups, first, axis=0).max(axis=0)
    lead = float(leads @ weights)
    won = np.bincount(groups.argmax(axis=0), weights=weights, minlength=len(GROUPS))
    return Split(
        shares=dict(zip(TIME_STATES, totals, strict=True)),
        weights=weights,
        means=dict(zip(TIME_STATES, means.tolist(), strict=True)),
        spreads=dict(zip(TIME_STATES, deviations.tolist(), strict=True)),
        votes=dict(zip(GROUPS, won.tolist(), strict=True)),
        lead=float(group_means[first] - group_means[second]),
        first=GROUPS[first],
        spread=math.sqrt(max(0.0, float((leads - lead) ** 2 @ weights))),
        signals=frozenset(signals - {"none"}),
    )


def stated(means: Mapping[str, float], spread: float, floor: float) -> TimeSplit | None:
    """Return a split with its uncertainty, or None where it cannot be stated within 0.15.

    Args:
        means: share of time by state.
        spread: the largest standard deviation of a share over the points.
        floor: the least uncertainty the window's length and coverage allow.
    """
    shares = {state: min(1.0, max(0.0, mean)) for state, mean in means.items()}
    total = sum(shares.values())
    uncertainty = max(floor, Z_90 * spread)
    if total <= 0.0 or uncertainty > MOST_UNCERTAIN:
        return None
    return TimeSplit(**{state: share / total for state, share in shares.items()}, uncertainty=uncertainty)
