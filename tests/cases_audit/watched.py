"""A node watched from its real seams to the page, in simulated time: nothing here sleeps."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from gpumon.export.answer import Answer, Site, answer
from gpumon.export.publish import Published, Publisher
from gpumon.export.request import Request
from gpumon.export.scope import EVERYTHING
from gpumon.hardware.reader import HostReader, NodeReader
from gpumon.model.metrics import PREFIX
from gpumon.model.settings import Settings
from gpumon.model.view import NodeView
from gpumon.pipeline import initial_state, step
from gpumon.sampling import simulated_time

_FOR_EVER_S = 1e9


class Page:
    """The samples of a text page as a strict parser reads them. Fails on a series that occurs twice."""

    def __init__(self, text: bytes) -> None:
        self.samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for family in text_string_to_metric_families(text.decode("utf-8")):
            for sample in family.samples:
                key = sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))
                assert key not in self.samples, key
                self.samples[key] = sample.value

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of a family's series that carry these labels, in order of the page."""
        return [
            value
            for (found, pairs), value in self.samples.items()
            if found == name and labels.items() <= dict(pairs).items()
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the one series with these labels, None when there is none."""
        found = self.values(name, **labels)
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def label_sets(self, name: str) -> list[Mapping[str, str]]:
        """Return the labels of each series of a family."""
        return [dict(pairs) for found, pairs in self.samples if found == name]

    def names(self, **labels: str) -> set[str]:
        """Return the families that have a series with these labels."""
        return {name for name, pairs in self.samples if labels.items() <= dict(pairs).items()}


class Watched:
    """Ticks of a node, judged and published as the daemon does."""

    def __init__(self, node: NodeReader, host: HostReader, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._ticks = simulated_time.ticks(node, host, settings.sampling, _FOR_EVER_S)
        self._settings = settings
        self._state = initial_state()
        self._publisher = Publisher(settings.max_jobs)
        self.published: Published = self._publisher.before_first_tick(0.0)

    def tick(self, count: int = 1) -> Page:
        """Let so many seconds pass and return the page of the last one."""
        for _ in range(count):
            self._state = step(self._state, next(self._ticks), self._settings)
            self.published = self._publisher.publish(self.view, {})
        return Page(self.published.pages.text)

    def skip(self) -> None:
        """Let a second pass without reading the page."""
        self._state = step(self._state, next(self._ticks), self._settings)

    @property
    def view(self) -> NodeView:
        """The newest tick as outputs see it."""
        assert self._state.view is not None
        return self._state.view

    def get(self, path: str, age_s: float = 0.5) -> Answer:
        """Return what a client without a password gets so long after the newest tick."""
        request = Request("GET", path, {}, keep_alive=True, client="127.0.0.1", secure=False)
        return answer(request, EVERYTHING, self.published, self.published.mono_s + age_s, Site())
