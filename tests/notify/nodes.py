"""Nodes in trouble and nodes in health, for the notifications: literal changes to the factory's views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.model.verdict import Straggler, Verdict
from gpumon.model.view import CardView, JobView, NodeView
from tests import views

Change = Callable[[NodeView], NodeView]


def healthy() -> NodeView:
    """Return 8 cards with a computing job of acme on four and one of zeta on the others."""
    jobs = (
        views.job_view("container:aaa", (0, 1, 2, 3), views.COMPUTE, "acme"),
        views.job_view("container:zzz", (4, 5, 6, 7), views.COMPUTE, "zeta"),
    )
    return views.node_view(tuple(views.card_view(index) for index in range(8)), jobs)


def at(view: NodeView, seconds: float) -> NodeView:
    """Return the view so many seconds later."""
    return dataclasses.replace(view, mono_s=views.MONO_S + seconds, wall_s=views.WALL_S + seconds)


def with_job(change: Callable[[JobView], JobView]) -> Change:
    """Change acme's job."""
    return lambda view: dataclasses.replace(view, jobs=(change(view.jobs[0]), *view.jobs[1:]))


def with_verdict(verdict: Verdict) -> Change:
    """Give acme's job another verdict."""
    return with_job(lambda job: dataclasses.replace(job, verdict=verdict))


def with_finding(name: str) -> Change:
    """Give acme's job a finding."""
    finding = FINDINGS_BY_NAME[name].found(("seen",))
    return with_verdict(dataclasses.replace(views.COMPUTE, findings=(finding,)))


def with_straggler(cause: str) -> Change:
    """Let acme's job wait for one card."""
    straggler = Straggler(views.uuid(2), 2, cause, 0.2)
    return with_verdict(dataclasses.replace(views.COMPUTE, stragglers=(straggler,)))


def with_card(index: int, change: Callable[[CardView], CardView]) -> Change:
    """Change one card."""
    return lambda view: dataclasses.replace(
        view, cards=tuple(change(card) if n == index else card for n, card in enumerate(view.cards))
    )


def throttled(reason: str) -> Callable[[CardView], CardView]:
    """Return what sets a throttle reason."""
    return lambda card: dataclasses.replace(
        card, tick=dataclasses.replace(card.tick, throttle_reasons=frozenset({reason}))
    )


def with_xid(index: int, xid: int, seconds: float) -> Change:
    """Let the driver report an error on a card at a time."""
    return with_card(index, lambda card: dataclasses.replace(card, xids={xid: (1, views.WALL_S + seconds)}))


def silent(card: CardView) -> CardView:
    """Let a card not answer, without an error of the driver."""
    return dataclasses.replace(views.lost(card), xids={})


def lost_card(view: NodeView) -> NodeView:
    """Return the node after acme's card 2 fell off the bus."""
    view = with_card(2, views.lost)(view)
    return with_job(lambda job: dataclasses.replace(job, gpus_lost=1))(view)
