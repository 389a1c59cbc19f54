"""Which processes make up each job. Made again only when a process came, went or changed its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.jobs.facts import Facts, Key
from gpumon.jobs.launch import owner_of


@dataclass(frozen=True, slots=True)
class Members:
    """The processes of one job, oldest first."""

    keys: tuple[Key, ...] = ()  # GPU processes
    facts: tuple[Facts, ...] = ()  # of these
    relatives: tuple[Key, ...] = ()  # of launchers and loaders
    paths: tuple[str, ...] = ()  # control groups of all of them


@dataclass(frozen=True, slots=True)
class Roster:
    """All jobs' processes, and what they were made of."""

    members: Mapping[str, Members] = field(default_factory=dict)  # by gpu_job
    relative_of: Mapping[Key, str] = field(default_factory=dict)  # other process -> gpu_job, for its life
    facts: Mapping[Key, Facts] = field(default_factory=dict)
    launch_of: Mapping[Key, str] = field(default_factory=dict)
    roots: Mapping[Key, str] = field(default_factory=dict)


def updated(
    before: Roster,
    facts: Mapping[Key, Facts],
    shown: Mapping[int, Facts],
    launch_of: Mapping[Key, str],
    roots: Mapping[Key, str],
) -> Roster:
    """Return the roster of these processes: the one before when nothing changed.

    Args:
        launch_of: GPU process -> gpu_job.
        roots: root of a launch -> gpu_job.
    """
    if facts is before.facts and launch_of == before.launch_of and roots == before.roots:
        return before
    keys: dict[str, list[Key]] = {name: [] for name in roots.values()}
    for key, name in launch_of.items():
        keys.setdefault(name, []).append(key)
    relative_of: dict[Key, str] = {}
    others: dict[str, list[Facts]] = {}
    for process in shown.values():
        key = process.key
        if key in launch_of:
            continue
        known = before.relative_of.get(key)
        name = known if known in keys else owner_of(process, shown, launch_of, roots)
        if name:
            relative_of[key] = name
            others.setdefault(name, []).append(process)
    members = {}
    for name, own in keys.items():
        own.sort(key=lambda key: (key[1], key[0]))
        ranks = tuple(facts[key] for key in own)
        related = others.get(name, [])
        paths = dict.fromkeys(path for process in (*ranks, *related) for path in process.paths)
        new = Members(tuple(own), ranks, tuple(process.key for process in related), tuple(paths))
        old = before.members.get(name)
        members[name] = old if old == new else new  # whoever learnt from the old object need not learn again
    return Roster(members, relative_of, facts, dict(launch_of), dict(roots))
