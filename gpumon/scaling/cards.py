"""Which cards: how a set hangs together, and the best set of a given size.

A set is as fast as the narrowest way between two of its cards. What a set has shown goes before what its place says;
where nothing was seen, cards on one socket and under one switch come first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from gpumon.model.past import SetRate
from gpumon.model.topology import Topology

# Sets are tried one by one up to this many: all of 4 out of 16. More cards than that have no choice worth the time.
MOST_SETS = 2000
PCIE, NVLINK = "pcie", "nvlink"


def signature(uuids: Iterable[str], topology: Topology) -> str:
    """Return how cards hang together, in words that do not depend on their addresses: "sockets 2+2, switches 2+2"."""
    if topology.flat or not topology.paths:
        return "unknown"
    mine = set(uuids)
    sockets = Counter(_socket(path.numa_node, path.root) for path in topology.paths if path.uuid in mine)
    switches = [len(mine & set(uplink.uuids)) for uplink in topology.uplinks]
    words = [f"sockets {_sizes(sockets.values())}"]
    if any(switches):
        words.append(f"switches {_sizes(size for size in switches if size)}")
    return ", ".join(words)


def best_set(
    count: int,
    candidates: Mapping[str, int],
    topology: Topology,
    rates: Mapping[tuple[tuple[str, ...], str], SetRate],
    avoid: frozenset[str] = frozenset(),
) -> tuple[int, ...]:
    """Return the indices of the cards to use, sorted; () where there are not so many.

    Args:
        candidates: index by uuid.
        avoid: cards that hold the others up; taken last.
    """
    if count > len(candidates):
        return ()
    ordered = sorted(candidates, key=lambda uuid: (uuid in avoid, candidates[uuid]))
    sets: Iterable[tuple[str, ...]] = combinations(ordered, count)
    if math.comb(len(ordered), count) > MOST_SETS:
        sets = (tuple(ordered[:count]),)
    chosen = max(sets, key=lambda uuids: _merit(uuids, candidates, topology, rates, avoid))
    return tuple(sorted(candidates[uuid] for uuid in chosen))


def _merit(
    uuids: tuple[str, ...],
    indices: Mapping[str, int],
    topology: Topology,
    rates: Mapping[tuple[tuple[str, ...], str], SetRate],
    avoid: frozenset[str],
) -> tuple[float, ...]:
    """Return what makes a set good, most important first; larger is better."""
    key = tuple(sorted(uuids))
    seen = [rates[key, link].bytes_per_second for link in (PCIE, NVLINK) if (key, link) in rates]
    mine = set(uuids)
    sockets = len({_socket(path.numa_node, path.root) for path in topology.paths if path.uuid in mine})
    joined = max((len(mine & set(uplink.uuids)) for uplink in topology.uplinks), default=0)
    return (
        -len(mine & avoid),
        _nvlinked(mine, topology),
        max(seen, default=0.0),
        -sockets,
        joined,
        -sum(indices[uuid] for uuid in uuids),
    )


def _nvlinked(mine: set[str], topology: Topology) -> float:
    """Return the share of a set's pairs that NVLink joins."""
    pairs = [pair for pair in topology.p2p if pair.uuid in mine and pair.peer_uuid in mine]
    return sum(pair.path.startswith("NV") for pair in pairs) / len(pairs) if pairs else 0.0


def _socket(numa_node: int, root: str) -> str:
    return str(numa_node) if numa_node >= 0 else root


def _sizes(sizes: Iterable[int]) -> str:
    return "+".join(str(size) for size in sorted(sizes, reverse=True))
