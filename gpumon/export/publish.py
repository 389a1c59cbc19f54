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
from gpumon.export.scope import Scope, narrowed
from gpumon.export.series import job_families, node_families, self_families
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

    __slots__ = ("_gzipped", "_lock", "_made", "_max_jobs", "_scoped", "mono_s", "pages", "self_pages", "view")

    def __init__(self, view: NodeView | None, mono_s: float, pages: Pages, self_pages: Pages, max_jobs: int) -> None:
        self.view = view
        self.mono_s = mono_s
        self.pages = pages
        self.self_pages = self_pages
        self._max_jobs = max_jobs
        self._lock = Lock()
        self._gzipped: dict[int, bytes] = {}  # by id of a body that lives as long as this object
        self._made: dict[tuple[str, Scope], Document] = {}
        self._scoped: dict[Scope, Pages] = {}

    def gzipped(self, body: bytes) -> bytes:
        """Return the compressed form of one of this tick's bodies, compressed once."""
        with self._lock:
            packed = self._gzipped.get(id(body))
            if packed is None:
                packed = self._gzipped[id(body)] = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            return packed

    def document(self, path: str, scope: Scope, make: Callable[[NodeView], Document]) -> Document | None:
        """Return the document of a path as seen from a scope, made once for this tick; None before the first tick."""
        if self.view is None:
            return None
        with self._lock:
            made = self._made.get((path, scope))
            if made is None:
                made = self._made[path, scope] = make(narrowed(self.view, scope))
            return made

    def scoped_pages(self, scope: Scope) -> Pages:
        """Return the pages as seen from a scope: everything, or the series of the tenants' jobs alone."""
        if scope.tenants is None or self.view is None:
            return self.pages
        with self._lock:
            pages = self._scoped.get(scope)
            if pages is None:
                families = job_families(narrowed(self.view, scope), self._max_jobs)
                pages = self._scoped[scope] = Renderer().render(families, Counter())
            return pages


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
        return Published(view, view.mono_s, pages, self._self_renderer.render(alone, self._dropped), self._max_jobs)

    def before_first_tick(self, mono_s: float) -> Published:
        """Return what a scrape gets while there is no tick yet: the build alone."""
        pages = self._self_renderer.render(self_families(None, self._build, {}, self._dropped), self._dropped)
        return Published(None, mono_s, pages, pages, self._max_jobs)


def _bindings_version() -> str:
    try:
        return metadata.version("nvidia-ml-py")
    except metadata.PackageNotFoundError:  # a copy of the module without its metadata, as some distributions ship it
        return ""
