"""One simulated card at work: kernels, moving bytes, waiting collectives, and the power, clocks and heat they make.

Whoever changes what a card does calls `close` before the change (it ends the running stretch) and `settle` after it
(it works out speed, power and rates of the new one).

Speed under a power limit follows the published sweep of an RTX PRO 6000 (600 W): 500 W leaves 87 % of the speed and
300 W 55 %, which is the dynamic power ratio to the power of 0.65. Heat is one time constant; at the slowdown
temperature the card holds itself by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.hardware.simulated.cards import CardSpec
from gpumon.hardware.simulated.engine import Engine, Signal
from gpumon.hardware.simulated.fabric import NVLINK_RX, NVLINK_TX, RX, TX, Slot, Transfer
from gpumon.hardware.simulated.timeline import Label, Timeline
from gpumon.hardware.simulated.timeline_file import CHANNELS

_SPEED_EXPONENT = 0.65
_HEARTBEAT_S = 0.5
# A collective's kernel takes a few of the SMs from the kernels it runs beside (NCCL uses 4 to 24 of 100 to 170).
_OVERLAP_SPEED = 0.95
_COLLECTIVE_SM_SHARE = 0.12
# Commands, completions and small copies while kernels run, bytes per second (an A100 under load: 98 MB/s in, 33 out).
_LAUNCH_RX, _LAUNCH_TX = 40e6, 14e6
_CLOCKS_FALL_AFTER_S = 10.0
_SLEEP_SM_HERTZ = 210e6
_SLEEP_MEMORY_HERTZ = 405e6
_BOOST_SHARE = 0.93  # of the maximum SM clock that boost settles at under load
_POWER = CHANNELS.index("power")
_KERNEL_LABELS = frozenset({Label.COMPUTE, Label.MEMORY})


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel, or a stretch of many short ones, does to its card. Shares are of the card's peak."""

    power: float  # between awake (0) and the card's compute level (1)
    sm: float
    tensor: float
    dram: float
    memory_controller: float
    labels: Mapping[Label, float]  # states the stretch consists of; shares sum to 1
    occupancy: float = 0.35
    kernel: float = 1.0  # share of the stretch in which a kernel runs
    rx: float = 0.0  # wire bytes per second that messages too small to be transfers of their own cause
    tx: float = 0.0
    nvlink: float = 0.0  # each way
    clock_bound: float = 1.0  # how much of its duration follows the SM clock


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is particular about one board in its place."""

    speed: float = 1.0  # silicon and cooling spread, 1 = typical
    power: float = 1.0  # draws this much more or less for the same work
    power_limit_watts: float = 0.0  # 0: the default limit
    ambient_celsius: float = 30.0
    celsius_per_watt: float = 0.0  # 0: what keeps this card 22 degrees below slowdown at its limit
    heat_seconds: float = 70.0  # time constant
    brake_from_s: float = float("inf")  # the power brake is pulled at this time and held
    replays_per_second: float = 0.0
    extra_context_bytes: float = 0.0


class Kernel:
    """Work under way on a card."""

    __slots__ = ("done", "left_s", "rate", "since", "version", "work")

    def __init__(self, work: Work, seconds: float, now: float) -> None:
        self.work = work
        self.left_s = seconds
        self.rate = 0.0
        self.since = now
        self.version = 0
        self.done = Signal()


@dataclass(slots=True)
class CardState:
    """A card of the simulated node."""

    engine: Engine
    index: int
    slot: Slot
    conditions: Conditions
    timeline: Timeline
    kernels: list[Kernel] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)  # those that touch this card; kept by the node
    waiting: dict[Label, int] = field(default_factory=dict)  # collectives whose kernel spins, by what they wait for
    host_label: Label = Label.IDLE  # what is going on when nothing runs
    contexts: int = 0
    memory_used_bytes: float = 0.0
    temperature: float = 0.0
    _rates: list[float] = field(default_factory=list)
    _busy_until_s: float = 0.0
    _clock_ratio: float = 1.0
    _unsettled: bool = False
    card: CardSpec = field(init=False)  # the product
    _link_rate: float = field(init=False)

    def __post_init__(self) -> None:
        self.card = self.slot.card
        self._link_rate = self.slot.wire_bytes_per_second
        self.temperature = self.conditions.ambient_celsius + self.card.watts.floor * self._celsius_per_watt
        self._settle()
        self.engine.at(self.engine.now + _HEARTBEAT_S, self._beat)

    @property
    def power_limit_watts(self) -> float:
        """The enforced limit."""
        return self.conditions.power_limit_watts or self.card.tdp_watts

    def run(self, work: Work, seconds: float) -> Signal:
        """Start work that takes `seconds` at full clocks with the card to itself."""
        kernel = Kernel(work, max(seconds, 1e-6), self.engine.now)
        self.close()
        self.kernels.append(kernel)
        self.settle()
        return kernel.done

    def close(self) -> None:
        """End the running stretch at the present time."""
        now = self.engine.now
        elapsed = now - self.timeline.end_s
        if elapsed > 0:
            self.timeline.append(now, self._rates)
            self._warm(self._rates[_POWER], elapsed)
        for kernel in self.kernels:
            kernel.left_s -= kernel.rate * (now - kernel.since)
            kernel.since = now

    def settle(self) -> None:
        """Have what the card does from now on worked out, once for all changes of this instant."""
        if not self._unsettled:
            self._unsettled = True
            self.engine.before_time_moves(self._settle)

    def _settle(self) -> None:
        self._unsettled = False
        now = self.engine.now
        if self.kernels or self.transfers or self.waiting:
            self._busy_until_s = now
        rx = tx = nvlink_rx = nvlink_tx = 0.0
        moving: Transfer | None = None
        for transfer in self.transfers:
            counts, rate = transfer.route.cards[self.index], transfer.rate
            rx += rate * counts[RX]
            tx += rate * counts[TX]
            nvlink_rx += rate * counts[NVLINK_RX]
            nvlink_tx += rate * counts[NVLINK_TX]
            if transfer.collective and moving is None:
                moving = transfer
        collective = moving is not None or bool(self.waiting)
        demand = self._demanded_watts(now, collective, max(rx, nvlink_rx / 8))
        watts, flags = self._hold(demand, now)
        self._set_kernel_rates(now)
        activity = self._activity([rx, tx, nvlink_rx, nvlink_tx], collective)
        activity.insert(_POWER, watts)
        self._rates = activity + self._state(flags, now) + self._labels(moving, flags)

    def change(self, *, host_label: Label | None = None, contexts: int = 0, memory_bytes: float = 0.0) -> None:
        """Change what holds when nothing runs, the open contexts, and the memory in use, all by difference."""
        self.close()
        if host_label is not None:
            self.host_label = host_label
        self.contexts += contexts
        self.memory_used_bytes += memory_bytes
        self.settle()

    def spin(self, label: Label, by: int) -> None:
        """A collective's kernel begins (+1) or ends (-1) to wait on this card."""
        self.close()
        self.waiting[label] = self.waiting.get(label, 0) + by
        if self.waiting[label] == 0:
            del self.waiting[label]
        self.settle()

    @property
    def _celsius_per_watt(self) -> float:
        own = self.conditions.celsius_per_watt
        return own or (self.card.slowdown_celsius - 22 - 30.0) / self.card.tdp_watts

    def _beat(self) -> None:
        self.close()
        self.settle()
        self.engine.at(self.engine.now + _HEARTBEAT_S, self._beat)

    def _warm(self, watts: float, elapsed_s: float) -> None:
        goal = self.conditions.ambient_celsius + watts * self._celsius_per_watt
        share = min(elapsed_s / self.conditions.heat_seconds, 1.0)
        self.temperature += (goal - self.temperature) * share

    def _demanded_watts(self, now: float, collective: bool, moved: float) -> float:
        levels = self.card.watts
        if self.contexts == 0:
            return levels.floor
        kernels = self.kernels
        if not kernels and not collective:
            asleep = now - self._busy_until_s >= _CLOCKS_FALL_AFTER_S
            return levels.context if asleep else levels.awake
        above = 0.0
        if kernels:
            power = kernels[0].work.power if len(kernels) == 1 else _mean_power(kernels)
            above = power * (levels.compute - levels.awake)
        if collective:
            # Beside other kernels a collective adds less than alone: clocks and fabric are up already.
            spinning = levels.spin - levels.awake
            moving = (levels.copy - levels.spin) * min(moved / self._link_rate, 1.0)
            above += (spinning * 0.5 if kernels else spinning) + moving
        return levels.awake + above * self.conditions.power

    def _hold(self, demand: float, now: float) -> tuple[float, tuple[bool, bool, bool]]:
        """Bring the demand under the limits; sets the clock ratio. Returns watts and (cap, thermal, brake)."""
        awake = self.card.watts.awake
        allowed = self.power_limit_watts
        hottest = self.card.slowdown_celsius
        thermal = False
        if self.temperature >= hottest - 1.0:
            sustained = (hottest - self.conditions.ambient_celsius) / self._celsius_per_watt
            thermal = sustained < min(demand, allowed)
            allowed = min(allowed, sustained) if thermal else allowed
        braked = now >= self.conditions.brake_from_s and demand > 0.5 * self.card.tdp_watts
        if braked:
            allowed = min(allowed, 0.5 * self.card.tdp_watts)
        self._clock_ratio = 1.0
        if demand <= allowed:
            return demand, (False, False, False)
        allowed = max(allowed, awake + 0.02 * (demand - awake))
        self._clock_ratio = ((allowed - awake) / (demand - awake)) ** _SPEED_EXPONENT
        return allowed, (not thermal and not braked, thermal, braked)

    def _set_kernel_rates(self, now: float) -> None:
        if not self.kernels:
            return
        share = 1.0 / len(self.kernels)
        slowed = _OVERLAP_SPEED if self.transfers or self.waiting else 1.0
        for kernel in self.kernels:
            bound = kernel.work.clock_bound
            speed = self.conditions.speed * self._clock_ratio
            kernel.rate = share * slowed / (bound / speed + 1.0 - bound)
            kernel.since = now
            kernel.version += 1
            self._schedule_end(kernel)

    def _schedule_end(self, kernel: Kernel) -> None:
        version = kernel.version

        def end() -> None:
            if kernel.version == version:
                self.close()
                self.kernels.remove(kernel)
                self.settle()
                kernel.done.fire()

        self.engine.at(self.engine.now + max(kernel.left_s, 0.0) / kernel.rate, end)

    def _activity(self, moved: list[float], collective: bool) -> list[float]:
        """Return the channels from pcie_rx to dram_active, power left out."""
        kernel = controller = sm = occupancy = tensor = dram = 0.0
        share = 1.0 / len(self.kernels) if self.kernels else 0.0
        for running in self.kernels:
            work = running.work
            kernel += work.kernel * share
            controller += work.memory_controller * share
            sm += work.sm * share
            occupancy += work.occupancy * work.sm * share
            tensor += work.tensor * share
            dram += work.dram * share
            if work.rx or work.tx or work.nvlink:
                moved[RX] += work.rx * share
                moved[TX] += work.tx * share
                moved[NVLINK_RX] += work.nvlink * share
                moved[NVLINK_TX] += work.nvlink * share
        moved[RX] += kernel * _LAUNCH_RX
        moved[TX] += kernel * _LAUNCH_TX
        if collective:
            kernel = 1.0
            controller = max(controller, 0.02)
            sm = max(sm, _COLLECTIVE_SM_SHARE)
            occupancy = max(occupancy, 0.02)
        if moved[RX] or moved[TX] or moved[NVLINK_RX]:
            # A reduced byte is read and written in device memory about three times for each one sent.
            touched = 1.5 * sum(moved) / self.card.memory_bytes_per_second
            dram = min(dram + touched, 0.95)
            controller = min(controller + 1.6 * touched, 1.0)
        return [*moved, kernel, controller, sm, occupancy, tensor, dram]

    def _state(self, flags: tuple[bool, bool, bool], now: float) -> list[float]:
        """Return the channels from sm_clock on."""
        card = self.card
        asleep = self.contexts == 0 or now - self._busy_until_s >= _CLOCKS_FALL_AFTER_S
        cap, thermal, brake = flags
        critical = thermal and self.temperature >= card.shutdown_celsius - 2
        return [
            _SLEEP_SM_HERTZ if asleep else card.sm_clock_max_hertz * _BOOST_SHARE * self._clock_ratio,
            _SLEEP_MEMORY_HERTZ if asleep else card.memory_clock_max_hertz,
            self.temperature,
            self.memory_used_bytes,
            1.0 if asleep else self.slot.trained_generation,
            self.slot.trained_lanes,
            self.conditions.replays_per_second,
            cap,
            thermal and not critical,
            critical,
            brake,
            asleep,
        ]

    def _labels(self, moving: Transfer | None, flags: tuple[bool, bool, bool]) -> list[float]:
        """Return the event log's columns."""
        out = [0.0] * len(Label)
        if self.kernels:
            for kernel in self.kernels:
                for label, part in kernel.work.labels.items():
                    # What waits for its host or its own exchange in between does so beside a transfer as well.
                    hidden = moving is not None and label in _KERNEL_LABELS
                    out[Label.OVERLAP if hidden else label] += part / len(self.kernels)
        elif moving is not None:
            shared = moving.label is Label.OWN_LINK and moving.shared_bound
            out[Label.SHARED_LINK if shared else moving.label] = 1.0
        elif self.waiting:
            out[next(iter(self.waiting))] = 1.0
        elif self.transfers:
            out[self.transfers[0].label] = 1.0
        else:
            out[self.host_label] = 1.0
        cap, thermal, brake = flags
        out[Label.POWER_LIMITED] = cap and self.power_limit_watts <= 0.9 * self.card.tdp_watts
        out[Label.THERMAL] = thermal
        out[Label.BRAKE] = brake
        return out


def _mean_power(kernels: list[Kernel]) -> float:
    return sum(kernel.work.power for kernel in kernels) / len(kernels)
