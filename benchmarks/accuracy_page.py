"""The page docs/accuracy.md: what was asked, what was reached, on how many instances, and what nobody has checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import accuracy_changes as changes
from benchmarks import accuracy_scores as scores
from benchmarks import accuracy_traces as traces
from benchmarks.accuracy_runs import CLEAR, SIGNALS, TWIN, Outcome
from benchmarks.accuracy_scores import Table

LEAST_INSTANCES = 150  # of each class
LEAST_NEAR = 1 / 3
SIGNAL_NAMES = {
    "full": "all",
    "windows": "20 ms windows instead of byte counters",
    "no_gpm": "no GPM",
    "no_links": "no traffic",
    "no_power": "no power",
    "no_memory_activity": "no memory-controller activity",
    "no_processes": "no processes",
}
HEAD = """# How often the verdict is right

Written by `{command}`; do not edit. {instances} random
instances (seeds {first} to {last}), {sets} signal sets. The report proper has 2,200: about an hour of two cores.

## What these figures are, and what they are not

**Nothing on this page was measured on a real card.** Every instance is a simulated node: jobs are drawn at random,
their events (kernels, transfers, waits) follow from model, batch, strategy and links, and sensors with lag, noise and
NVML's own averaging look at them. The simulation and the analysis share no formula and no constant, but both were
written from the same published figures: where those are wrong for a card, both are wrong together.

**No recorded trace holds one labelled second of communication.** The recorded telemetry at hand (H100, TITAN X, RTX PRO
6000, RTX 4090 and 4080) has labels for computing, waiting for a checkpoint, heat, power limits and idling; that gpumon
recognises communication on a real card is shown by nothing but simulation.

Never checked on hardware: power levels of waiting and working on any GeForce card, what byte counters count on it, how
its 20 ms windows fall, the lag of its power sensor, uplinks of real boards, thermal and power-brake behaviour.

*Clear*: the winning share of the true split leads by {clear:.2f} or more. *Twin*: by {twin:.2f} or less. *Near*: drawn
from the parameter range of what the job is most easily confused with. *Cold*: gpumon has never seen the node. *Warm*:
it remembers the power levels and link rates that an earlier run of the same job has shown, nothing of the job itself;
after a minute the job has mostly shown them again, so that the two columns differ little. Intervals are 95 % (Wilson's;
macro-F1: resampled jobs). Seeds of this page are never used for tuning.

What a slow card *costs* is how much shorter a step of the same job is with that card like its neighbour. It counts as
named where it was named at any time in the last 40 s, and as wrongly named where it costs little in these and in the
40 s before them, of which the first of these names speak. A board that is slower at equal clocks shows nothing of why:
there `unknown` is the right cause.
"""
TRACES = """## Recorded telemetry, a smoke test

Not a measure of accuracy: {count} labels in {files} files, of the few kinds named above. Labels that were inferred do
not count. `python -m benchmarks.accuracy_traces` lists them.

| figure | asked | reached |
| --- | --- | --- |
| agreement, weighted by time | 0.95 | {agreement:.3f} |
| card that writes a checkpoint found | all | {found} of {waits} |
| step of the H100 run of 467 ms | within 3 % | {step} |
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the page shows."""

    command: str
    outcomes: Mapping[tuple[str, bool], Sequence[Outcome]]  # by signal set, and whether warm
    delays: Sequence[changes.Delay]
    hangs: Sequence[changes.Delay]
    lives: Sequence[changes.Life]
    steady: Mapping[str, tuple[float, int]]  # scenario -> seconds, changes of class


def _side_by_side(cold: Table, warm: Table) -> Table:
    """Return two tables of criteria as one with a column for each."""
    rows = tuple((*row, other[-1]) for row, other in zip(cold.rows, warm.rows, strict=True))
    return Table(cold.title, ("figure", "asked", "cold", "warm"), rows)


def _counts(outcomes: Sequence[Outcome]) -> str:
    """Return whether there are enough instances of each class, and enough at its border."""
    count = {name: sum(o.true_class == name for o in outcomes) for name in scores.classes_of(outcomes)}
    near = {name: sum(o.near for o in outcomes if o.true_class == name) / count[name] for name in count}
    fewest, farthest = min(count, key=lambda name: count[name]), min(near, key=lambda name: near[name])
    enough = "met" if count[fewest] >= LEAST_INSTANCES else "not met with so few instances"
    return (
        f"At least {LEAST_INSTANCES} instances a class are asked for: {enough} (fewest: {fewest}, {count[fewest]}). "
        f"At least a third of each class is drawn from its neighbour's range: "
        f"{'met' if near[farthest] >= LEAST_NEAR else 'not met'} (least: {farthest}, {near[farthest]:.2f})."
    )


def _lives(lives: Sequence[changes.Life]) -> str:
    """Return what was said of healthy jobs, and the bound that follows."""
    lasting = changes.standing(lives)
    moments = [life for life in lives if life.longest_s > 0]
    bound = f"Below {3 / len(lives):.4f} of such transitions do (none in {len(lives)}: 95 %)." if not lasting else ""
    listed = "".join(
        f"\n- transition {life.seed}, {life.kind}: {life.job_class} for {life.longest_s:.0f} s" for life in lasting
    )
    return (
        f"{len(lives)} transitions of healthy jobs (start, end, fewer cards, checkpoint, evaluation, lull, restart of "
        f"gpumon, missed samples), each watched for four minutes. A verdict that customers hear of (communication, "
        f"host, idle, hung) stood for a minute in {len(lasting)}. {bound} A shorter one was seen in "
        f"{len(moments) - len(lasting)}: weights are loaded, rank 0 evaluates or saves while the others wait.{listed}"
    )


def _delays(figures: Figures) -> Table:
    """Return how soon changes are seen, by class before and after."""
    clear = [one for one in figures.delays if one.clear]
    rows = [
        ("class change seen within 20 s", "0.95", str(changes.seen_in_time(clear))),
        ("hang called so after 5 to 10 min", "all", str(changes.hung_in_time(figures.hangs))),
    ]
    for pair in sorted({(one.before, one.after) for one in clear}):
        own = [one for one in clear if (one.before, one.after) == pair]
        rows.append((f"{pair[0]} to {pair[1]}", "", str(changes.seen_in_time(own))))
    for scenario, (seconds, count) in figures.steady.items():
        rows.append((f"changes of class in {seconds / 3600:.0f} h of {scenario}", "0", str(count)))
    return Table("Changes and steadiness", ("figure", "asked", "reached"), tuple(rows))


def _traces() -> str:
    found = list(traces.agreements())
    waits = [one for one in found if one.culprit]
    step = next(one for one in found if "save1000" in one.file)
    return TRACES.format(
        count=len(found),
        files=len({one.file for one in found}),
        agreement=traces.weighted(found),
        found=sum(one.culprit_found for one in waits),
        waits=len(waits),
        step=f"{1000 * step.said_step_s:.0f} ms",
    )


def page(figures: Figures) -> str:
    """Return the page."""
    cold, warm = figures.outcomes["full", False], figures.outcomes["full", True]
    clear = [o for o in cold if o.clear]
    seeds = [o.seed for o in cold]
    sets = [name for name in SIGNALS if (name, False) in figures.outcomes]
    shared = set.intersection(*({o.seed for o in figures.outcomes[name, False]} for name in sets))
    by_signals = [(SIGNAL_NAMES[name], [o for o in figures.outcomes[name, False] if o.seed in shared]) for name in sets]
    head = HEAD.format(
        command=figures.command,
        instances=len(cold),
        first=min(seeds),
        last=max(seeds),
        sets=len(sets),
        clear=CLEAR,
        twin=TWIN,
    )
    parts = [
        head.rstrip(),
        str(_side_by_side(scores.criteria(cold), scores.criteria(warm))),
        str(scores.class_table(cold)) + "\n\n" + _counts(cold),
        str(scores.confusion(clear, "Taken for, clear instances, cold")),
        str(scores.detail_table(cold)),
        str(scores.calibration_table(cold)),
        str(scores.card_table(cold, warm)),
        str(scores.signal_table(by_signals)) + f"\n\nThe first {len(shared)} instances, cold.",
        str(scores.straggler_table(cold)),
        str(_delays(figures)),
        f"## Healthy jobs\n\n{_lives(figures.lives)}",
        _traces().rstrip(),
    ]
    return "\n\n".join(parts) + "\n"
