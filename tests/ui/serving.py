"""The live page over a real server and a NodeView that a test can change."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator

from gpumon.export.answer import Site
from gpumon.export.publish import Published, Publisher
from gpumon.export.server import Server
from gpumon.model.view import NodeView
from gpumon.ui import page, state_json
from gpumon.ui.history_ring import HistoryRing


class Served:
    """What is served now; `show` puts the next tick out, `age_s` makes it old."""

    def __init__(self, view: NodeView) -> None:
        self.ring = HistoryRing()
        self._publisher = Publisher(max_jobs=256)
        self.age_s = 0.5
        for minute in range(15):
            self.ring.append(later(wavering(view, minute), 60.0 * (minute - 15)))
        self.url = ""
        self.show(view)

    def show(self, view: NodeView) -> None:
        self.ring.append(view)
        self.published: Published = self._publisher.publish(view, {})


def later(view: NodeView, seconds: float) -> NodeView:
    """Return the same node some seconds after."""
    return dataclasses.replace(view, mono_s=view.mono_s + seconds, wall_s=view.wall_s + seconds)


def wavering(view: NodeView, minute: int) -> NodeView:
    """Return the node as it was some minutes ago: the same, with shares and traffic that differ a little."""
    shift = 0.1 * math.sin(minute)
    jobs = []
    for job in view.jobs:
        split = job.verdict.time_split
        if split is not None and split.compute > 0.2 and split.communication > 0.2:
            split = dataclasses.replace(split, compute=split.compute + shift, communication=split.communication - shift)
            job = dataclasses.replace(job, verdict=dataclasses.replace(job.verdict, time_split=split))  # noqa: PLW2901
        jobs.append(job)
    cards = []
    for number, card in enumerate(view.cards):
        pcie = card.pcie
        if not math.isnan(pcie.rx.saturation_ratio):
            rx = dataclasses.replace(pcie.rx, saturation_ratio=0.5 + 0.2 * math.sin(minute + number))
            card = dataclasses.replace(card, pcie=dataclasses.replace(pcie, rx=rx))  # noqa: PLW2901
        cards.append(card)
    return dataclasses.replace(view, jobs=tuple(jobs), cards=tuple(cards))


@contextlib.contextmanager
def serving(view: NodeView) -> Iterator[Served]:
    """Serve the page of this node on a free port."""
    served = Served(view)
    site = Site(
        fixed={"/": page.document()},
        live={"/api/v1/state": state_json.document, "/api/v1/recent": served.ring.document},
    )
    server = Server(
        "127.0.0.1:0",
        lambda: served.published,
        lambda: served.published.mono_s + served.age_s,
        site=site,
    )
    served.url = f"http://127.0.0.1:{server.start()}/"
    try:
        yield served
    finally:
        server.stop()
