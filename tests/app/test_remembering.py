"""What the daemon remembers, over its own end: runs of one life are compared in the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpumon.app.remembering import Remembering, remembered
from gpumon.cli import report
from gpumon.cli.main import main
from gpumon.config import Config, load
from gpumon.export.publish import Publisher
from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import HostSpec, JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.training import Training
from gpumon.history import Keeper
from gpumon.history.store import Store, read
from gpumon.model.past import NOTHING
from gpumon.model.settings import HistorySettings, Settings
from gpumon.model.verdict import Verdict
from gpumon.pipeline import initial_state, step
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.simulated_time import ticks
from tests.views import geforce

NODE = NodePlan(slots("rtx4090", 2), HostSpec(staging_bytes_per_second=8e9))
SIMULATED_WALL_S = 1_767_225_700.0
WORK = Training(work.MODEL_1B, "ddp", micro_batch=4, micro_seconds=0.3, overlap=False, gap_seconds=0.04)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """A configuration whose state lies in a folder of the test, with threads that are turned by hand."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(Keeper, "start", Keeper.turn)
    monkeypatch.setattr(Keeper, "stop", lambda keeper: (keeper.turn(), keeper._close()))
    monkeypatch.setattr("gpumon.history.keeper.time.time", lambda: SIMULATED_WALL_S)  # else the runs are long past
    yield load(None, {})


def live(config: Config, cards: int, seconds: float = 180.0) -> tuple[Verdict, Settings]:
    """Watch the job on so many cards from the daemon's start to its end."""
    remembering = Remembering(config, simulated=True)
    remembering.start()
    plan = JobPlan(f"job-{cards}", WORK, tuple(range(cards)))
    node = SimulatedNode(Scenario(f"life-{cards}", "", NODE, (plan,)), clock=CountingClock())
    settings = remembering.salted(config.settings)
    state = initial_state()
    for tick in ticks(node, node, settings.sampling, seconds):
        state = step(state, remembering.heard(tick), settings, remembering.past)
        remembering.offer(state)
    remembering.stop()
    assert state.view is not None
    return state.view.jobs[0].verdict, settings


def test_runs_of_one_life_are_compared_in_the_next(config: Config, tmp_path: Path) -> None:
    """The second life knows the run on one card: efficiency by period, and both runs stand in the file."""
    alone, first = live(config, 1)
    assert alone.scaling is None
    both, second = live(config, 2)
    assert first.workload_salt == second.workload_salt != ""
    assert both.scaling is not None
    assert both.scaling.evidence == "period"
    runs, rates = read(tmp_path / "history-simulated.sqlite")
    assert sorted(run.count for run in runs) == [1, 2]
    assert len({run.workload for run in runs}) == 1
    assert all(run.energy_joules_per_step > 0.0 for run in runs)
    (learned,) = rates
    # The board gives each card 8 GB/s, and counters count packet headers too; the link alone would carry 25.
    assert 7e9 < learned.bytes_per_second < 10e9


def test_another_installation_cannot_tell_the_workload(config: Config, tmp_path: Path) -> None:
    """Under another salt the same command line has another name."""
    live(config, 1, 60.0)
    (mine,) = {run.workload for run in read(tmp_path / "history-simulated.sqlite")[0]}
    (tmp_path / "salt").unlink()
    live(config, 2, 60.0)
    names = {run.workload for run in read(tmp_path / "history-simulated.sqlite")[0]}
    assert len(names - {mine}) == 1


def test_trying_a_scenario_leaves_nothing_behind(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder of its own a simulated node keeps no history, and the usual place is not touched."""
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setattr("gpumon.history.place.STATE_FOLDER", "/nowhere/at/all")
    remembering = Remembering(config, simulated=True)
    remembering.start()
    assert remembering.shown(geforce()).findings == geforce().findings
    remembering.stop()


def test_switched_off(config: Config, tmp_path: Path) -> None:
    """With history.enabled = false nothing is written and nothing is said."""
    remembering = Remembering(dataclasses.replace(config, history=None), simulated=False)
    remembering.start()
    remembering.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_cannot_be_written_is_a_series(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's finding stands in /metrics, where the alert takes it from."""
    (tmp_path / "state").write_text("in the way")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    remembering = Remembering(config, simulated=False)
    remembering.start()
    page = Publisher(64).publish(remembering.shown(geforce()), {}).pages.text
    assert b'gpumon_node_finding{finding="history_read_only",severity="warning",audience="operator"} 1' in page


def test_a_report_knows_what_the_daemon_has_seen(
    config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a minute of the running job is judged by its hours in the history, against the run on one card."""
    live(config, 1)
    live(config, 2)
    job = JobPlan("job-2", WORK, (0, 1))
    node = SimulatedNode(Scenario("life-2", "", NODE, (job,)), clock=CountingClock())
    monkeypatch.setattr(report, "watch", lambda *_: ticks(node, node, config.settings.sampling, 30.0))
    main(["report", "--simulate", "life-2"])
    told = " ".join(capsys.readouterr().out.split())
    assert "times the work of one (period, within" in told


def test_who_may_not_read_the_history_gets_a_report_all_the_same(config: Config, tmp_path: Path) -> None:
    """Without the salt or the file nothing is compared, and nothing is written."""
    assert remembered(config, simulated=True) == (NOTHING, config.settings)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "salt").write_text("0" * 64)
    (tmp_path / "history-simulated.sqlite").write_text("no history")
    assert remembered(config, simulated=True)[0] is NOTHING


def test_a_tenant_that_is_forgotten_is_forgotten_by_the_running_daemon(config: Config, tmp_path: Path) -> None:
    """After `gpumon history --forget` the job under way is watched anew, in memory as in the file."""
    remembering = Remembering(config, simulated=True)
    remembering.start()
    node = SimulatedNode(Scenario("life", "", NODE, (JobPlan("job", WORK, (0, 1)),)), clock=CountingClock())
    settings = remembering.salted(config.settings)
    state, path = initial_state(), tmp_path / "history-simulated.sqlite"
    for number, tick in enumerate(ticks(node, node, settings.sampling, 150.0)):
        state = step(state, tick, settings, remembering.past)
        remembering.offer(state)
        if number in (100, 102):
            assert remembering._keeper is not None
            remembering._keeper.turn()
        if number == 101:
            with closing(Store.open(path, HistorySettings(), SIMULATED_WALL_S)) as other:
                assert other.forget("unassigned") == 1
    assert 20.0 < state.scaling.runs[0].watched_s < 50.0
    remembering.stop()
    assert [run.watched_s for run in read(path)[0]] == [state.scaling.runs[0].watched_s]
