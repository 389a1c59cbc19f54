"""What a simulated node is made of: cards in slots, a host, jobs, and what goes wrong. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpumon.hardware.simulated.cards import CARDS
from gpumon.hardware.simulated.fabric import HostSpec, Slot
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training


@dataclass(frozen=True, slots=True)
class Standing:
    """Processes that hold cards and run nothing: a notebook, a loaded model without requests."""

    memory_bytes: float = 2e9
    contexts: bool = True  # False: a container was given the cards, and no GPU process was started


@dataclass(frozen=True, slots=True)
class Burn:
    """One kernel over and over: a stress test, a filler of idle cards, a copy benchmark."""

    kind: str  # dense, filler, copy, small
    intensity: float = 0.95
    jitter: float = 0.01


Workload: TypeAlias = Training | Serving | Standing | Burn


@dataclass(frozen=True, slots=True)
class Identity:
    """How a job's processes present themselves."""

    kind: str = "container"  # container, pod, slurm, unit, session
    name: str = ""  # container or unit name, Slurm job id; "": made from the job's name
    user_id: int = 1000
    launcher: str = ""  # "": as the strategy asks; torchrun, accelerate, deepspeed, srun, python
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job: what runs on which cards, from when to when. Times are seconds of the run; before 0: already running."""

    name: str
    workload: Workload
    cards: tuple[int, ...]
    start_s: float = -1.0
    end_s: float = float("inf")
    given_cards: tuple[int, ...] = ()  # cards of its container; (): those it uses
    identity: Identity = field(default_factory=Identity)
    load_seconds: float = 6.0  # from the start of the process to the first step, when it starts within the run


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Something that goes wrong with one card, or with the driver as a whole (card -1)."""

    card: int
    kind: str  # lost, reset_required, driver_not_loaded, unknown, hung, garbage
    from_s: float
    to_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class XidPlan:
    """An Xid event."""

    card: int
    code: int
    at_s: float


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node without its jobs."""

    slots: tuple[Slot, ...]
    host: HostSpec = field(default_factory=HostSpec)
    conditions: Mapping[int, Conditions] = field(default_factory=dict)  # by card; others are typical
    driver: str = "580.95.05"
    virtualization: str = "none"  # none, kvm, docker
    queue_windows: bool = False  # window calls of different cards run one after the other
    hostname: str = "sim-node"
    acs_enabled: bool | None = False
    iommu: str = "passthrough"

    @property
    def flat(self) -> bool:
        """True in a VM: the guest sees its own invented PCI tree."""
        return self.virtualization not in ("none", "docker")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A node, its jobs, and its faults."""

    name: str
    about: str  # one line for people
    node: NodePlan
    jobs: tuple[JobPlan, ...] = ()
    faults: tuple[FaultPlan, ...] = ()
    xids: tuple[XidPlan, ...] = ()


def job_name(workload: Workload) -> str:
    """Return what a user would call such a job: nothing in it says how it fares."""
    if isinstance(workload, Training):
        return f"{workload.model.name}-{workload.strategy}"
    if isinstance(workload, Serving):
        return f"{workload.model.name}-server"
    return "notebook" if isinstance(workload, Standing) else "burn-in"


def slots(card: str, count: int, per_switch: int = 0, sockets: int = 2, **link: int) -> tuple[Slot, ...]:
    """Return `count` slots of one product, spread evenly over the sockets; `per_switch` cards share each switch."""
    spec = CARDS[card]
    return tuple(
        Slot(
            spec,
            socket=index * sockets // count,
            switch=index // per_switch if per_switch else -1,
            **link,
        )
        for index in range(count)
    )
