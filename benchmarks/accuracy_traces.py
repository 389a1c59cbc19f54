"""What is said of recorded telemetry beside its labels: a smoke test, never quoted as accuracy.

    python -m benchmarks.accuracy_traces

The files lie beside the project (`../shared/traces`) and are few, of few kinds, and none of them holds one labelled
second of communication: nothing here shows that gpumon recognises it on a real card.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumon import pipeline, recording
from gpumon.model.settings import Settings
from gpumon.model.verdict import Interval

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
# Labels as the traces' own table maps them to classes. A power limit below the card's default holds it; a log does not
# carry the default, and at the default the job computes.
CLASSES = {
    "compute_bound": ("compute",),
    "host_bound": ("host",),
    "input_bound": ("host",),
    "throttled_thermal": ("throttled",),
    "throttled_power": ("throttled", "compute"),
    "idle": ("idle",),
    "idle mostly": ("idle",),
}
# Where a file is an extract, its labels keep the times of the whole run.
BEGINS_S = {"h100x8_ddp_opt3b_save1000_10hz.csv": 150.0}


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick of a replay: the time it stands for, and what the rows it came from are selected by."""

    t0: float
    t1: float
    card: str
    power_limit_w: float


@dataclass(frozen=True, slots=True)
class Replay:
    """One file from its first tick to its last."""

    moments: tuple[Moment, ...]
    intervals: tuple[Interval, ...]
    step_s: float

    @property
    def seconds(self) -> float:
        """Length of the file."""
        return self.moments[-1].t1


@dataclass(frozen=True, slots=True)
class Agreement:
    """One label and how much of its time was called so."""

    file: str
    label: str
    seconds: float
    agreed_s: float
    culprit: str  # card that is labelled as the one the others wait for
    culprit_found: bool
    step_s: float  # as labelled
    said_step_s: float


def replayed(file: Path) -> Replay:
    """Return what a replay of a file says."""
    state, moments, begin, before = pipeline.initial_state(), [], math.nan, 0.0
    for tick in recording.read([file], lambda _: None):
        begin = tick.mono_s if math.isnan(begin) else begin
        state = pipeline.step(state, tick, Settings())
        limit = tick.card_ticks[-1].reading("power_limit_watts")
        moments.append(Moment(before, tick.mono_s - begin, tick.cards[-1].identity.name, limit))
        before = tick.mono_s - begin
    steps = [job.verdict.step_seconds for job in state.view.jobs] if state.view is not None else []
    intervals = tuple(interval for own in state.intervals.values() for interval in own)
    return Replay(tuple(moments), intervals, next((step for step in steps if not math.isnan(step)), math.nan))


def agreements(folder: Path = TRACES) -> Iterator[Agreement]:
    """Yield the agreement with every *stated* or *derived* label of a class."""
    replays: dict[str, Replay] = {}
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as stream:
        rows = [
            row for row in csv.DictReader(stream) if row["label"] in CLASSES and "inferred" not in row["confidence"]
        ]
    for row in rows:
        file = row["file"]
        if file not in replays:
            replays[file] = replayed(folder / file)
        replay = replays[file]
        spans = _selected(replay, row["selector"]) if row["selector"] else [_span(row, replay)]
        names = CLASSES[row["label"]]
        seconds = sum(t1 - t0 for t0, t1 in spans)
        culprit = row["straggler_gpu"]
        yield Agreement(
            file=file,
            label=row["label"],
            seconds=seconds,
            agreed_s=min(seconds, sum(_agreed(replay, span, names) for span in spans)),
            culprit=culprit,
            culprit_found=bool(culprit) and any(_named(replay, span, int(culprit)) for span in spans),
            step_s=float(row["step_s"] or math.nan),
            said_step_s=replay.step_s,
        )


def _span(row: dict[str, str], replay: Replay) -> tuple[float, float]:
    begin = BEGINS_S.get(row["file"], 0.0)
    return float(row["t0_s"]) - begin, min(float(row["t1_s"]) - begin, replay.seconds)


def _selected(replay: Replay, selector: str) -> list[tuple[float, float]]:
    """Return the times of the rows that a selector such as `card=pro6000_ws_*,power_limit_w<550` picks."""
    return [
        (moment.t0, moment.t1)
        for moment in replay.moments
        if all(_picks(moment, condition) for condition in selector.split(","))
    ]


def _picks(moment: Moment, condition: str) -> bool:
    if condition.startswith("card="):
        name = condition.removeprefix("card=")
        return moment.card.startswith(name.removesuffix("*")) if name.endswith("*") else moment.card == name
    if condition.startswith("power_limit_w<"):
        return moment.power_limit_w < float(condition.removeprefix("power_limit_w<"))
    if condition.startswith("power_limit_w>="):
        return moment.power_limit_w >= float(condition.removeprefix("power_limit_w>="))
    raise ValueError(f"labels.csv: {condition} is not a condition this benchmark knows")


def _overlap(interval: Interval, span: tuple[float, float]) -> float:
    return max(0.0, min(span[1], interval.t1) - max(span[0], interval.t0))


def _agreed(replay: Replay, span: tuple[float, float], names: tuple[str, ...]) -> float:
    """Return the seconds of a span that were called by one of the names; a card without a job is idle."""
    agreed = sum(_overlap(interval, span) for interval in replay.intervals if interval.job_class.value in names)
    if "idle" in names:
        covered = sum(_overlap(interval, span) for interval in replay.intervals)
        agreed += max(0.0, span[1] - span[0] - covered)
    return agreed


def _named(replay: Replay, span: tuple[float, float], gpu: int) -> bool:
    return any(gpu in interval.stragglers and _overlap(interval, span) > 0.0 for interval in replay.intervals)


def weighted(found: list[Agreement]) -> float:
    """Return the agreement weighted by time."""
    return sum(one.agreed_s for one in found) / sum(one.seconds for one in found)


def main() -> None:
    """Print the agreement label by label."""
    found = list(agreements())
    for one in found:
        waits = f", card {one.culprit} {'found' if one.culprit_found else 'MISSED'}" if one.culprit else ""
        step = f", step {one.said_step_s:.3f} of {one.step_s} s" if not math.isnan(one.step_s) else ""
        print(f"{one.file} {one.label} {one.seconds:.0f} s: {one.agreed_s / one.seconds:.2f}{waits}{step}")
    print(f"time-weighted agreement {weighted(found):.3f}")


if __name__ == "__main__":
    main()
