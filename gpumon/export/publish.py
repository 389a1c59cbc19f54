"""What one tick gives to those who ask over HTTP: bytes made once, shared by every scraper, dropped with the tick."""

from __future__ import annotations

import gzip
import platform
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import metadata
from threading import Lock

import gpumon
from gpumon.export.node_series import Build
from gpumon.export.series import node_families, self_families
from gpumon.export.text import Pages, Renderer
from gpumon.model.document import Document
from gpumon.model.view import NodeView

# Level 1: a page of 1,000 series shrinks to a tenth in about 1 ms; level 6 takes three times as long for a fifth less.
_GZIP_LEVEL = 1


class Published:
    """One tick as it is served. The pages never change; compressed forms and documents are made once, when first asked.

    Attributes:
        view: the tick; None before the first.
        mono_s: monotonic time of the tick, for its age.
        pages: everything.
        self_pages: gpumon's own series alone, for when the tick has grown old.
    """

    __slots__ = ("_gzipped", "_lock", "_made", "mono_s", "pages", "self_pages", "view")

    def __init__(self, view: NodeView | None, mono_s: float, pages: Pages, self_pages: Pages) -> None:
        self.view = view
        self.mono_s = mono_s
        self.pages = pages
        self.self_pages = self_pages
        self._lock = Lock()
        self._gzipped: dict[int, bytes] = {}
        self._made: dict[tuple[str, str], Document] = {}

    def gzipped(self, body: bytes) -> bytes:
        """Return the compressed form of one of this tick's bodies, compressed once."""
        with self._lock:
            packed = self._gzipped.get(id(body))
            if packed is None:
                packed = self._gzipped[id(body)] = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            return packed

    def document(self, path: str, scope: str, make: Callable[[], Document]) -> Document:
        """Return the document of a path as seen from a scope, made once for this tick."""
        with self._lock:
            made = self._made.get((path, scope))
            if made is None:
                made = self._made[path, scope] = make()
            return made


class Publisher:
    """Turns ticks into Published. Used by one thread; holds what must outlive a tick: label text and drop counts."""

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self._build = Build(gpumon.__version__, platform.python_version(), _bindings_version())
        self._renderer = Renderer()
        self._self_renderer = Renderer()
        self._dropped: Counter[str] = Counter()

    def publish(self, view: NodeView, notifications: Mapping[tuple[str, str], int]) -> Published:
        """Return the tick ready to serve.

        Args:
            notifications: sent so far by (channel, result).
        """
        everything = node_families(view, self._build, self._max_jobs, notifications, self._dropped)
        pages = self._renderer.render(everything, self._dropped)
        alone = self_families(view, self._build, notifications, self._dropped)
        return Published(view, view.mono_s, pages, self._self_renderer.render(alone, self._dropped))

    def before_first_tick(self, mono_s: float) -> Published:
        """Return what a scrape gets while there is no tick yet: the build alone."""
        pages = self._self_renderer.render(self_families(None, self._build, {}, self._dropped), self._dropped)
        return Published(None, mono_s, pages, pages)


def _bindings_version() -> str:
    try:
        return metadata.version("nvidia-ml-py")
    except metadata.PackageNotFoundError:  # a copy of the module without its metadata, as some distributions ship it
        return ""
