"""Random nodes: products, counts, lanes, switches, boards, drivers as they occur on rental floors."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gpumon.hardware.simulated.cards import CARDS
from gpumon.hardware.simulated.fabric import HostSpec
from gpumon.hardware.simulated.scenario import Identity, NodePlan, slots

GEFORCE = ("rtx4090", "rtx5090", "rtx3090")
PROFESSIONAL = ("l40s", "a6000", "rtxpro6000", "a100pcie", "h100pcie")
NVLINKED = ("a100sxm", "h100sxm", "h200sxm")
_DRIVERS = ("535.230.02", "550.144.03", "560.35.05", "570.133.20", "580.95.05", "595.45.04")


@dataclass(frozen=True, slots=True)
class Taste:
    """Which nodes are drawn. Shares of the three kinds of product."""

    geforce: float = 0.65
    professional: float = 0.2


def draw_card(rng: random.Random, taste: Taste) -> str:
    """Return the key of a product."""
    number = rng.random()
    if number < taste.geforce:
        return rng.choice(GEFORCE)
    return rng.choice(PROFESSIONAL if number < taste.geforce + taste.professional else NVLINKED)


def draw_node(rng: random.Random, taste: Taste, counts: tuple[int, ...] = (2, 4, 8)) -> NodePlan:
    """Return a node of one product."""
    key = draw_card(rng, taste)
    count = rng.choice(counts)
    linked = CARDS[key].nvlink is not None
    lanes = {} if linked or rng.random() < 0.6 else {"slot_lanes": rng.choice((8, 8, 4))}
    sockets = 1 if count <= 4 and rng.random() < 0.5 else 2
    per_switch = rng.choice((0, 0, 0, 2, 4)) if count >= 4 else 0
    # From small boards with 4 GB/s a card to tuned servers with 35 (published all-reduce and copy figures).
    staging = 10 ** rng.uniform(9.6, 10.54)
    host = HostSpec(
        sockets=sockets,
        cpus=rng.choice((32, 64, 96, 128, 192)),
        memory_bytes=rng.choice((128e9, 256e9, 512e9, 1024e9)),
        io_memory_bytes_per_second=rng.uniform(60e9, 300e9),
        cross_socket_bytes_per_second=rng.uniform(25e9, 90e9),
        switch_generation=CARDS[key].generation,
        staging_bytes_per_second=staging,
        staging_latency_s=rng.uniform(14e-6, 40e-6),
        disk_bytes_per_second=10 ** rng.uniform(8.7, 9.7),
        peer_access=None if rng.random() < 0.9 else False,
        nvlink_works=rng.random() < 0.85,
    )
    return NodePlan(
        slots(key, count, per_switch, sockets, **lanes),
        host,
        driver=rng.choice(_DRIVERS),
        virtualization="kvm" if rng.random() < 0.12 else "none",
        queue_windows=rng.random() < 0.25,
    )


def draw_identity(rng: random.Random) -> Identity:
    """Return how a job's processes present themselves."""
    kind = rng.choice(("container", "container", "container", "pod", "slurm", "session", "unit"))
    return Identity(kind=kind, user_id=rng.choice((1000, 1001, 1002)), labels={"tenant": rng.choice("abc")})
