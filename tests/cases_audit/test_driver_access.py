"""Reports 32 and 33: gpumon that may not, or must not, use the driver: neither touches it nor pretends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumon.model.fault import Fault
from gpumon.model.samples import Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling import Sampler
from tests.app.daemon import running
from tests.sampling.scripted import Script, ScriptedHost, ScriptedNode, card
from tests.standin.library import ControlFile, build

pytestmark = pytest.mark.realtime

Build = Callable[[ScriptedNode, SamplingSettings], Sampler]


@pytest.fixture
def start() -> Iterator[Build]:
    """Start samplers that are stopped at the end whatever happens."""
    made: list[Sampler] = []

    def begin(node: ScriptedNode, settings: SamplingSettings) -> Sampler:
        made.append(Sampler(node, ScriptedHost(), settings))
        made[-1].start()
        return made[-1]

    yield begin
    for sampler in made:
        sampler.stop()


def ticks(sampler: Sampler, count: int) -> list[Tick]:
    """Return so many ticks."""
    return [tick for tick in (sampler.next_tick() for _ in range(count)) if tick is not None]


def test_a_driver_that_may_not_be_used_is_never_opened(start: Build) -> None:
    """Report 33: switched off in the configuration, the driver is not opened; switched on, the cards are there."""
    node = ScriptedNode([card(0)], [Script()])
    sampler = start(node, SamplingSettings(driver=False))
    assert [(tick.nvml_up, tick.nvml_fault) for tick in ticks(sampler, 2)] == [(False, Fault.RELEASED)] * 2
    assert node.open_tries == 0
    sampler.configure(SamplingSettings())
    assert ticks(sampler, 3)[-1].card_ticks[0].up
    sampler.configure(SamplingSettings(driver=False))
    tick = ticks(sampler, 2)[-1]
    assert (tick.nvml_up, tick.nvml_fault, node.closes) == (False, Fault.RELEASED, 1)


def test_failed_tries_are_counted(start: Build) -> None:
    """Report 32: tries to open the driver that failed in a row are known, and one that succeeds forgets them."""
    node = ScriptedNode([card(0)], [Script()])
    node.opening = Fault.UNKNOWN
    sampler = start(node, SamplingSettings())
    ticks(sampler, 4)
    assert 3 <= sampler.failed_tries <= 5
    node.opening = None
    ticks(sampler, 3)
    assert sampler.failed_tries == 0


def test_changed_settings_reach_the_cards(start: Build) -> None:
    """A shorter interval of process lists counts from the next second on, without opening the driver again."""
    node = ScriptedNode([card(0), card(1)], [Script(), Script()])
    sampler = start(node, SamplingSettings(process_interval_s=60.0))
    ticks(sampler, 3)
    before = [node.calls[one.identity.uuid]["processes"] for one in node.cards]
    sampler.configure(SamplingSettings(process_interval_s=1.0))
    ticks(sampler, 4)
    after = [node.calls[one.identity.uuid]["processes"] for one in node.cards]
    assert min(now - then for now, then in zip(after, before, strict=True)) >= 2
    assert node.opens == 1


def test_a_board_that_was_cut_anew_is_probed_again(start: Build) -> None:
    """When the node says that a board is not what it was, the driver is opened anew, once, and the cards come back."""
    node = ScriptedNode([card(0)], [Script()])
    sampler = start(node, SamplingSettings())
    ticks(sampler, 2)
    sampler.refresh_topology()
    assert node.opens == 1
    node.cut_anew = True
    sampler.refresh_topology()
    node.cut_anew = False
    seen = ticks(sampler, 4)
    assert (node.opens, node.closes) == (2, 1)
    assert seen[-1].card_ticks[0].up
    assert [event.kind for tick in seen for event in tick.events] == ["reinit"]


@pytest.mark.tools
def test_lost_access_ends_the_daemon_when_told_to(tmp_path: Path) -> None:
    """Report 32: after so many failed tries the daemon says why, withdraws its cards and ends with exit code 1."""
    library = ControlFile(tmp_path, build(tmp_path, 595))
    library.apply("card 0 minor 0")
    environ = {**library.environment, "GPUMON_SAMPLING_EXIT_AFTER_FAILURES": "3"}
    with running(tmp_path, **environ) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        library.apply("set 0 everything !1", "set * Init !999")
        daemon.process.wait(30)
        time.sleep(0.2)
        assert daemon.process.returncode == 1
        assert len(daemon.lines) < 15
        said = json.dumps(daemon.lines)
        assert "daemon-reload" in said
        assert "sampling.exit_after_failures" in said
