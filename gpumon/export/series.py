"""A NodeView becomes families of series: unknown is absent, state sets are complete, every list has a cap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from gpumon.export.card_series import add_card
from gpumon.export.family import Families, Family
from gpumon.export.job_series import add_job, is_shown
from gpumon.export.node_series import Build, add_node, add_self
from gpumon.model.view import JobView, NodeView

_log = structlog.get_logger()


def node_families(
    view: NodeView,
    build: Build,
    max_jobs: int,
    notifications: Mapping[tuple[str, str], int],
    dropped: Counter[str],
) -> list[Family]:
    """Return everything a scrape shows of this tick, in the order of the metric table.

    Args:
        max_jobs: jobs beyond are left out: ended ones first, then the youngest.
        notifications: sent so far by (channel, result).
        dropped: cumulative count of series left out, by reason; added to here and exported.
    """
    out = Families()
    indices = {card.card.identity.uuid: str(card.card.identity.index) for card in view.cards}
    wall_minus_mono_s = view.wall_s - view.mono_s
    _add_whole(out, dropped, add_node, view, indices, dropped)
    if view.nvml_up:
        for card in view.cards:
            _add_whole(out, dropped, add_card, card, wall_minus_mono_s, dropped)
    _add_jobs(out, view, indices, max_jobs, dropped)
    _add_self_and_counts(out, view, build, notifications, dropped)
    return out.in_order()


def job_families(view: NodeView, max_jobs: int) -> list[Family]:
    """Return the series of the view's jobs alone: what a tenant's scrape shows of a narrowed view."""
    out = Families()
    indices = {card.card.identity.uuid: str(card.card.identity.index) for card in view.cards}
    _add_jobs(out, view, indices, max_jobs, Counter())
    return out.in_order()


def self_families(
    view: NodeView | None,
    build: Build,
    notifications: Mapping[tuple[str, str], int],
    dropped: Counter[str],
) -> list[Family]:
    """Return gpumon's own series alone, for a scrape that finds no fresh tick. `view` is the last one, if any."""
    out = Families()
    if view is None:
        out.add("build_info", (build.version, build.python, build.bindings), 1.0)
    else:
        _add_self_and_counts(out, view, build, notifications, dropped)
    return out.in_order()


def _add_whole(out: Families, dropped: Counter[str], add: Callable[..., None], *arguments: object) -> None:
    """Add the series of one subject, all or none: a fault in one must not take the page from the others."""
    part = Families()
    try:
        add(part, *arguments)
    except Exception as error:  # noqa: BLE001 - edge: one card or job that cannot be shown
        dropped["error"] += 1
        _log.error("series left out", error=repr(error))
    else:
        out.take(part)


def _add_jobs(out: Families, view: NodeView, indices: Mapping[str, str], max_jobs: int, dropped: Counter[str]) -> None:
    shown = _oldest_running_first([job for job in view.jobs if is_shown(job, view.mono_s)])
    for job in shown[:max_jobs]:
        _add_whole(out, dropped, add_job, job, indices, dropped)
    if len(shown) > max_jobs:
        dropped["jobs"] += _series_of(shown[max_jobs:], indices)


def _add_self_and_counts(
    out: Families,
    view: NodeView,
    build: Build,
    notifications: Mapping[tuple[str, str], int],
    dropped: Counter[str],
) -> None:
    add_self(out, build, view.node, view.sampler, wall_minus_mono_s=view.wall_s - view.mono_s, dropped=dropped)
    for (channel, result), count in sorted(notifications.items()):
        out.add("notifications_total", (channel, result), count)
    for reason, count in sorted(dropped.items()):
        out.add("series_dropped_total", (reason,), count)


def _oldest_running_first(jobs: list[JobView]) -> list[JobView]:
    return sorted(jobs, key=lambda view: (not math.isnan(view.ended_s), view.job.first_seen_s, view.job.gpu_job))


def _series_of(jobs: list[JobView], indices: Mapping[str, str]) -> int:
    scratch = Families()
    for job in jobs:
        add_job(scratch, job, indices, Counter())
    return scratch.count()
