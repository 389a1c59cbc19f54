"""The ways bytes can take through a node, and how simultaneous transfers share them.

Resources are the two directions of every card's link, of every shared switch uplink and of NVLink, the memory of
each socket as far as DMA can use it, and the link between sockets. A transfer (one copy, or one whole collective)
names how many bytes it puts on each resource for each byte of its own size; simultaneous transfers share the
resources max-min fair.

Without peer access NCCL stages through host memory: the sender writes into a buffer in DRAM, the receiver reads it.
Per byte that is one crossing of the sender's link, one of the receiver's, a write and a read of DRAM, and both
uplinks even when the two cards hang on one switch. Kernels drive such transfers, and the board's memory path gives each
card far less than its line rate (`staging_bytes_per_second`): then the card's own link is not what is full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpumon.hardware.simulated.cards import CardSpec, wire_bytes_per_second
from gpumon.hardware.simulated.engine import Engine, Signal
from gpumon.hardware.simulated.timeline import Label

# A 256-byte payload travels with 24 bytes of framing, header and checksum.
WIRE_PER_PAYLOAD = (256 + 24) / 256
# Acknowledgements and flow control leave this share of the line rate to packets.
PACKET_SHARE = 0.97
# What a 16-byte read request for every 512 bytes puts on the other direction.
REQUEST_SHARE = (16 + 8) / 512

# What kernel-driven transfers reach of the line rate of the card's own link, payload.
_DRIVEN_SHARE = 0.80

RX, TX, NVLINK_RX, NVLINK_TX = range(4)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one card sits: the link it got there and what is above it."""

    card: CardSpec
    socket: int = 0
    switch: int = -1  # number of the shared switch; -1: directly at a root port
    slot_generation: int = 0  # what the slot can do; 0: as much as the card
    slot_lanes: int = 0
    generation: int = 0  # as trained under load; 0: what card and slot can do
    lanes: int = 0
    hop_generation: int = 0  # a narrower hop between the slot and the root (riser, chipset); 0: none
    hop_lanes: int = 0

    @property
    def generation_max(self) -> int:
        """What card and slot can do together."""
        return min(self.slot_generation or self.card.generation, self.card.generation)

    @property
    def lanes_max(self) -> int:
        """The width card and slot can do together."""
        return min(self.slot_lanes or self.card.lanes, self.card.lanes)

    @property
    def trained_generation(self) -> int:
        """The generation the card's own link shows under load."""
        return self.generation or self.generation_max

    @property
    def trained_lanes(self) -> int:
        """The width of the card's own link."""
        return self.lanes or self.lanes_max

    @property
    def wire_bytes_per_second(self) -> float:
        """What the narrowest hop of this card alone carries in one direction, headers included."""
        own = wire_bytes_per_second(self.trained_generation, self.trained_lanes)
        if self.hop_lanes:
            return min(own, wire_bytes_per_second(self.hop_generation, self.hop_lanes))
        return own


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The board the cards sit in."""

    sockets: int = 2
    cpus: int = 128
    memory_bytes: float = 1024e9
    # What DMA writes and reads together get out of one socket's memory. Fits 28 GB/s a card in an 8-card all-reduce on
    # a dual-socket board with eight DDR5 channels each (NVIDIA/nccl#1639): 4 cards x (write + read) x 28.
    io_memory_bytes_per_second: float = 228e9
    cross_socket_bytes_per_second: float = 80e9  # one direction, payload
    switch_generation: int = 5  # upstream port of every switch
    switch_lanes: int = 16
    # What kernels get through host memory for one card, each way at once, whatever its link could carry: 35 GB/s on a
    # board with 4 x RTX 5090 (NVIDIA/nccl#1639), 13 on RTX 4090 (25.6 to 26.2 both ways), 4 to 8 on small boards.
    staging_bytes_per_second: float = 28e9
    staging_latency_s: float = 24e-6  # one small collective over PCIe (8 x RTX PRO 6000: about 24 us)
    peer_latency_s: float = 12e-6
    nvlink_latency_s: float = 9e-6
    socket_loopback_bytes_per_second: float = 2.4e9  # gloo over loopback, each way, one process
    disk_bytes_per_second: float = 2.0e9
    # Peer access over PCIe as the node grants it; None: as the cards' stock driver does.
    peer_access: bool | None = None
    nvlink_works: bool = True  # False: a VM or a broken fabric manager keeps NCCL off NVLink


@dataclass(frozen=True, slots=True)
class Route:
    """What one byte of a transfer puts on each resource, and the bounds of the transfer itself."""

    use: Mapping[str, float]  # bytes on a resource per byte of the transfer
    cards: Mapping[int, tuple[float, float, float, float]]  # rx, tx, nvlink rx, nvlink tx per byte; per card
    own: frozenset[str]  # resources that belong to one card
    rate_limit: float  # bytes per second the transfer's own machinery reaches on an empty node
    latency_s: float  # of one message of the collective
    limit_is_shared: bool = False  # True: that bound is the board's, not the card's own link


class Transfer:
    """A transfer under way. `label` is the state of a card on which nothing else runs meanwhile."""

    __slots__ = ("collective", "done", "label", "left", "rate", "route", "shared_bound", "since", "version")

    def __init__(self, route: Route, size_bytes: float, label: Label, collective: bool) -> None:
        self.route = route
        self.label = label
        self.collective = collective  # True: a kernel moves it and spins; False: a copy engine
        self.left = size_bytes
        self.rate = 0.0
        self.since = 0.0
        self.version = 0
        self.shared_bound = False  # True while something several cards share holds it
        self.done = Signal()


@dataclass(slots=True)
class Fabric:
    """The node's links at work. `before_change` and `after_change` are called with the cards a change touches."""

    engine: Engine
    slots: Sequence[Slot]
    host: HostSpec
    before_change: Callable[[Sequence[int]], None]
    after_change: Callable[[Sequence[int]], None]
    active: list[Transfer] = field(default_factory=list)  # in order of their start
    capacity: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.capacity = _capacities(self.slots, self.host)

    def start(self, route: Route, size_bytes: float, label: Label, collective: bool) -> Transfer:
        """Begin a transfer; its `done` is fired when the last byte has arrived."""
        transfer = Transfer(route, max(size_bytes, 1.0), label, collective)
        transfer.since = self.engine.now
        self._change(lambda: self.active.append(transfer), transfer)
        return transfer

    def solo_rate(self, route: Route) -> float:
        """Return the bytes per second a transfer reaches when it is alone on the node."""
        bounds = (self.capacity[name] / used for name, used in route.use.items() if used > 0)
        return min(route.rate_limit, *bounds)

    def shared_alone(self, route: Route) -> bool:
        """Return True when a transfer alone on the node is held by something that several cards share."""
        rate = self.solo_rate(route) * 1.001
        if route.rate_limit <= rate:
            return route.limit_is_shared
        return any(name not in route.own and self.capacity[name] / used <= rate for name, used in route.use.items())

    def _change(self, edit: Callable[[], None], subject: Transfer) -> None:
        now = self.engine.now
        touched = {card for transfer in self.active for card in transfer.route.cards} | set(subject.route.cards)
        cards = sorted(touched)
        self.before_change(cards)
        for transfer in self.active:
            transfer.left -= transfer.rate * (now - transfer.since)
            transfer.since = now
        edit()
        self._share()
        for transfer in self.active:
            transfer.version += 1
            self._schedule_end(transfer)
        self.after_change(cards)

    def _schedule_end(self, transfer: Transfer) -> None:
        version = transfer.version

        def end() -> None:
            if transfer.version == version:
                self._change(lambda: self.active.remove(transfer), transfer)
                transfer.version += 1
                transfer.done.fire()

        self.engine.at(self.engine.now + max(transfer.left, 0.0) / max(transfer.rate, 1.0), end)

    def _share(self) -> None:
        """Give every active transfer its max-min fair rate (progressive filling)."""
        left = dict(self.capacity)
        open_transfers = list(self.active)
        for transfer in open_transfers:
            transfer.rate = 0.0
        level = 0.0
        while open_transfers:
            step, binding = _next_bound(open_transfers, left, level)
            level += step
            used = {name for transfer in open_transfers for name in transfer.route.use}
            for name in used:
                left[name] -= step * sum(transfer.route.use.get(name, 0.0) for transfer in open_transfers)
            still_open = []
            for transfer in open_transfers:
                transfer.rate = level
                if transfer.route.rate_limit <= level * (1 + 1e-9):
                    transfer.shared_bound = transfer.route.limit_is_shared
                elif binding in transfer.route.use:
                    transfer.shared_bound = binding not in transfer.route.own
                else:
                    still_open.append(transfer)
            open_transfers = still_open


def _next_bound(transfers: Sequence[Transfer], left: Mapping[str, float], level: float) -> tuple[float, str]:
    """Return how far all open rates can rise together, and the resource that stops them ("" for an own limit)."""
    demand: dict[str, float] = {}
    for transfer in transfers:
        for name, used in transfer.route.use.items():
            demand[name] = demand.get(name, 0.0) + used
    step = min(transfer.route.rate_limit for transfer in transfers) - level
    binding = ""
    for name, used in demand.items():
        if used > 0 and max(left[name], 0.0) / used < step:
            step, binding = max(left[name], 0.0) / used, name
    return step, binding


def _capacities(slots: Sequence[Slot], host: HostSpec) -> dict[str, float]:
    capacity: dict[str, float] = {}
    for index, slot in enumerate(slots):
        for direction in ("rx", "tx"):
            capacity[f"card{index}.{direction}"] = slot.wire_bytes_per_second * PACKET_SHARE
            if slot.card.nvlink is not None:
                capacity[f"card{index}.nvlink_{direction}"] = slot.card.nvlink.bytes_per_second * 0.88
        if slot.switch >= 0:
            up = wire_bytes_per_second(host.switch_generation, host.switch_lanes) * PACKET_SHARE
            capacity[f"switch{slot.switch}.up"] = capacity[f"switch{slot.switch}.down"] = up
    for socket in range(host.sockets):
        capacity[f"memory{socket}"] = host.io_memory_bytes_per_second
        for other in range(host.sockets):
            if other != socket:
                capacity[f"socket{socket}to{other}"] = host.cross_socket_bytes_per_second
    return capacity


@dataclass(slots=True)
class _RouteBuilder:
    slots: Sequence[Slot]
    use: dict[str, float] = field(default_factory=dict)
    cards: dict[int, list[float]] = field(default_factory=dict)

    def add(self, resource: str, used: float) -> None:
        self.use[resource] = self.use.get(resource, 0.0) + used

    def cross_link(self, index: int, direction: int, share: float) -> None:
        """Put `share` bytes of payload on one direction of a card's own link and of the uplink above it."""
        counts = self.cards.setdefault(index, [0.0, 0.0, 0.0, 0.0])
        if direction in (NVLINK_RX, NVLINK_TX):
            counts[direction] += share
            self.add(f"card{index}.{'nvlink_rx' if direction == NVLINK_RX else 'nvlink_tx'}", share)
            return
        wire = share * WIRE_PER_PAYLOAD
        counts[direction] += wire
        self.add(f"card{index}.{'rx' if direction == RX else 'tx'}", wire)

    def cross_uplink(self, index: int, direction: int, share: float) -> None:
        switch = self.slots[index].switch
        if switch >= 0:
            self.add(f"switch{switch}.{'down' if direction == RX else 'up'}", share * WIRE_PER_PAYLOAD)

    def requests(self, index: int, share: float) -> None:
        """Reads of host memory send requests out of the card."""
        self.cards.setdefault(index, [0.0] * 4)[TX] += share * REQUEST_SHARE
        self.add(f"card{index}.tx", share * REQUEST_SHARE)

    def route(self, own_limit: float, latency_s: float, board_limit: float = float("inf")) -> Route:
        own = frozenset(name for name in self.use if name.startswith("card"))
        cards = {index: (c[0], c[1], c[2], c[3]) for index, c in self.cards.items()}
        limit = min(own_limit, board_limit)
        return Route(self.use, cards, own, limit, latency_s, limit_is_shared=board_limit < own_limit)


def nvlink_joins(slots: Sequence[Slot], members: Sequence[int], host: HostSpec) -> bool:
    """Return True when every member reaches every other over NVLink."""
    links = [slots[index].card.nvlink for index in members]
    if not host.nvlink_works or any(link is None for link in links):
        return False
    if all(link is not None and link.switched for link in links):
        return True
    return len(members) == 2 and members[0] // 2 == members[1] // 2


def peer_access(slots: Sequence[Slot], members: Sequence[int], host: HostSpec) -> bool:
    """Return True when the driver grants PCIe peer access between all members."""
    if host.peer_access is not None:
        return host.peer_access
    same = len({slots[index].card.name for index in members}) == 1
    return same and all(slots[index].card.peer_access for index in members)


def ring(slots: Sequence[Slot], members: Sequence[int], host: HostSpec, transport: str = "") -> Route:
    """Return the route of a ring collective in which every member sends and receives one byte per byte.

    `transport` "sockets" forces the network path over loopback, "staging" forbids peer access and NVLink.
    """
    build = _RouteBuilder(slots)
    if transport == "" and nvlink_joins(slots, members, host):
        for index in members:
            build.cross_link(index, NVLINK_RX, 1.0)
            build.cross_link(index, NVLINK_TX, 1.0)
        return build.route(float("inf"), host.nvlink_latency_s)
    peers = transport == "" and peer_access(slots, members, host)
    for sender, receiver in zip(members, [*members[1:], members[0]], strict=True):
        _hop(build, slots, sender, receiver, peers)
    if transport == "sockets":
        return build.route(float("inf"), 120e-6, host.socket_loopback_bytes_per_second)
    # Peer writes across a root complex reach 0.70 to 0.89 of the line rate (A6000, RTX PRO 6000).
    own_limit = min(_DRIVEN_SHARE * slots[index].wire_bytes_per_second for index in members)
    if peers:
        return build.route(own_limit, host.peer_latency_s)
    return build.route(own_limit, host.staging_latency_s, host.staging_bytes_per_second)


def send(slots: Sequence[Slot], sender: int, receiver: int, host: HostSpec) -> Route:
    """Return the route of one card sending to another."""
    build = _RouteBuilder(slots)
    if nvlink_joins(slots, (sender, receiver), host):
        build.cross_link(sender, NVLINK_TX, 1.0)
        build.cross_link(receiver, NVLINK_RX, 1.0)
        return build.route(float("inf"), host.nvlink_latency_s)
    peers = peer_access(slots, (sender, receiver), host)
    _hop(build, slots, sender, receiver, peers)
    own_limit = _DRIVEN_SHARE * min(slots[sender].wire_bytes_per_second, slots[receiver].wire_bytes_per_second)
    if peers:
        return build.route(own_limit, host.peer_latency_s)
    # One way alone, staging reaches about 1.5 times its share of both ways (RTX 5090: 43 against 28.5 GB/s).
    return build.route(own_limit, host.staging_latency_s, 1.5 * host.staging_bytes_per_second)


def host_copy(slots: Sequence[Slot], card: int, direction: int, pinned: bool = True) -> Route:
    """Return the route of a copy between host memory and a card (RX: to the card) by its copy engine."""
    build = _RouteBuilder(slots)
    build.cross_link(card, direction, 1.0)
    build.cross_uplink(card, direction, 1.0)
    build.add(f"memory{slots[card].socket}", 1.0)
    if direction == RX:
        build.requests(card, 1.0)
    # Copy engines reach 0.84 to 0.91 of the line rate from pinned memory; pageable memory is copied by a CPU first.
    share = 0.86 if pinned else 0.30
    return build.route(share * slots[card].wire_bytes_per_second, 10e-6)


def _hop(build: _RouteBuilder, slots: Sequence[Slot], sender: int, receiver: int, peers: bool) -> None:
    build.cross_link(sender, TX, 1.0)
    build.cross_link(receiver, RX, 1.0)
    from_slot, to_slot = slots[sender], slots[receiver]
    if not peers:
        build.add(f"memory{to_slot.socket}", 2.0)
        build.requests(receiver, 1.0)
    below_one_switch = peers and from_slot.switch >= 0 and from_slot.switch == to_slot.switch
    if not below_one_switch:
        build.cross_uplink(sender, TX, 1.0)
        build.cross_uplink(receiver, RX, 1.0)
    if from_slot.socket != to_slot.socket:
        build.add(f"socket{from_slot.socket}to{to_slot.socket}", 1.0)
