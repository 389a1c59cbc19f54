"""Which answer a request gets: pure, from the newest tick and the time. The sockets are `export.server`'s."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpumon.export.publish import Published
from gpumon.export.request import Request, accepts_gzip, prefers_openmetrics
from gpumon.export.scope import Scope
from gpumon.export.text import OPENMETRICS_TYPE, TEXT_TYPE
from gpumon.model.document import Document
from gpumon.model.fault import Fault
from gpumon.model.view import NodeView

FRESH_S = 5.0  # CONTRACT: a tick older than this is not shown as the present
# Cards count as gone after 2.5 s without an answer; a driver reload and a hiccup of all cards take less than this.
SILENT_S = 8.0
START_S = 60.0  # before the first tick: initialising NVML on a node without persistence takes several seconds a card

_NO_ILLNESS = (Fault.DRIVER_NOT_LOADED.value, Fault.RELEASED.value)
_PLAIN = "text/plain; charset=utf-8"
_GZIP_FROM_BYTES = 1024  # below, headers weigh as much as what is saved


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body, and the headers beyond Content-Length and Connection."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Site:
    """What is served beside /metrics and the health endpoints.

    Attributes:
        fixed: documents that do not change while gpumon runs, by path.
        live: makers of documents that show the newest tick, by path. Each is called once a tick and scope, with the
            view that the scope may see.
    """

    fixed: Mapping[str, Document] = field(default_factory=dict)
    live: Mapping[str, Callable[[NodeView], Document]] = field(default_factory=dict)


def answer(request: Request, scope: Scope | None, published: Published, now_s: float, site: Site) -> Answer:
    """Return the answer to a request.

    Args:
        scope: what the client may see; None when it may see nothing.
        now_s: monotonic time, on the clock of `published.mono_s`.
    """
    if scope is None:
        return plain(401, "authentication is required", {"WWW-Authenticate": 'Basic realm="gpumon"'})
    path, age_s = request.path, now_s - published.mono_s
    known = path in {"/metrics", "/-/healthy", "/-/ready"} or path in site.fixed or path in site.live
    if not known:
        return plain(404, "not found; see / and /metrics")
    if request.method not in {"GET", "HEAD"}:
        return plain(405, "only GET and HEAD", {"Allow": "GET, HEAD"})
    if path == "/-/healthy":
        illness = _illness(published, age_s)
        return plain(503, illness) if illness else plain(200, "healthy")
    if path == "/-/ready":
        return plain(503, "no tick yet") if published.view is None else plain(200, "ready")
    if path == "/metrics":
        return _metrics(request, scope, published, fresh=age_s <= FRESH_S)
    if path in site.fixed:
        document = site.fixed[path]
    else:
        made = published.document(path, scope, site.live[path]) if age_s <= FRESH_S else None
        if made is None:
            return plain(503, f"no tick for {age_s:.0f} s")
        document = made
    return _negotiated(request, published, document.body, document.content_type, document.headers)


def _illness(published: Published, age_s: float) -> str:
    """Return what keeps gpumon from watching, "" when nothing does.

    A driver that is not loaded is waited for, and one that was let go of is left alone: neither is an illness. One
    card of several that does not answer is that card's, not gpumon's.
    """
    view = published.view
    if age_s > (START_S if view is None else FRESH_S):
        return f"no tick for {age_s:.0f} s"
    if view is None or not view.cards or view.nvml_fault in _NO_ILLNESS:
        return ""
    answers = [card.tick.last_sample_s for card in view.cards if not math.isnan(card.tick.last_sample_s)]
    silent_s = view.mono_s - max(answers) if answers else float(view.seq)  # a tick a second since the start
    return f"no card has answered for {silent_s:.0f} s" if silent_s > SILENT_S else ""


def plain(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return a short answer in words."""
    return Answer(status, f"{sentence}\n".encode(), {"Content-Type": _PLAIN, **(headers or {})})


def _metrics(request: Request, scope: Scope, published: Published, fresh: bool) -> Answer:
    if fresh:
        pages = published.scoped_pages(scope)
    elif scope.tenants is None:
        pages = published.self_pages
    else:
        return plain(503, "no fresh tick")
    if prefers_openmetrics(request.headers.get("accept", "")):
        return _negotiated(request, published, pages.openmetrics, OPENMETRICS_TYPE, {})
    return _negotiated(request, published, pages.text, TEXT_TYPE, {})


def _negotiated(
    request: Request, published: Published, body: bytes, content_type: str, extra: Mapping[str, str]
) -> Answer:
    """Return a 200 answer, compressed where the client takes it."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store", **extra}
    if len(body) >= _GZIP_FROM_BYTES and accepts_gzip(request.headers.get("accept-encoding", "")):
        return Answer(200, published.gzipped(body), {**headers, "Content-Encoding": "gzip"})
    return Answer(200, body, headers)
