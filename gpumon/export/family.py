"""The value between `NodeView` and the page: families of samples, in the order of the metric table."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple, TypeAlias

from gpumon.model.metrics import METRICS, METRICS_BY_NAME, Metric

Labels: TypeAlias = tuple[str, ...]  # values in the order of Metric.labels
Sample: TypeAlias = tuple[Labels, float]


class Family(NamedTuple):
    """One exported family with at least one sample."""

    metric: Metric
    samples: list[Sample]


class Families:
    """Collects samples by family name (without the prefix). Absent stays absent: what is not finite is not added."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Add one sample. `value` may be NaN (missing), then nothing happens."""
        if isfinite(value):
            samples = self._samples.get(name)
            if samples is None:
                self._samples[name] = [(labels, value)]
            else:
                samples.append((labels, value))

    def take(self, others: Families) -> None:
        """Add all that another collection holds; it is not used any more."""
        for name, samples in others._samples.items():
            mine = self._samples.get(name)
            if mine is None:
                self._samples[name] = samples
            else:
                mine += samples

    def count(self) -> int:
        """Return how many samples were added."""
        return sum(map(len, self._samples.values()))

    def in_order(self) -> list[Family]:
        """Return the families that have samples, in the order of METRICS. Raises KeyError for an unknown name."""
        unknown = self._samples.keys() - METRICS_BY_NAME.keys()
        if unknown:
            raise KeyError(f"not in the metric table: {', '.join(sorted(unknown))}")
        return [Family(metric, self._samples[metric.name]) for metric in METRICS if metric.name in self._samples]
