"""`gpumon history` and `gpumon topo --bandwidth` as a person calls them."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from pathlib import Path

import pytest

from gpumon.cli.main import main
from gpumon.cli.topo import learned
from gpumon.history.store import Store, read
from gpumon.model.past import HeldFinding, Run, SetRate
from gpumon.model.settings import HistorySettings
from tests.views import geforce

from .made import WALL_S, rate, run


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The service's state directory, empty."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("GPUMON_CONFIG", raising=False)
    return tmp_path


def _keep(state: Path, *runs: Run, rates: tuple[SetRate, ...] = ()) -> Path:
    path = state / "history.sqlite"
    with closing(Store.open(path, HistorySettings(), WALL_S)) as store:
        store.write(runs, rates)
    return path


def test_a_table_newest_first(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a run with what matters of it; what is not known is a dash."""
    _keep(
        state,
        run(2, 1, throughput=812.5, unit="samples", energy_joules_per_step=431.0),
        run(8, 2, step_s=float("nan"), strategy="", tenant="globex"),
    )
    assert main(["history"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "LAST SEEN             TENANT  WORKLOAD  CARDS  GPUS  STRATEGY  STEP   THROUGHPUT       ENERGY/STEP  CLASS",
        "2026-09-21T14:56:40Z  globex  3da52899  8      0-7   -         -      -                -            compute",
        "2026-09-21T14:40:00Z  acme    3da52899  2      0-1   ddp       0.5 s  812.5 samples/s  431 J        compute",
    ]


def test_what_a_change_brought(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without what its predecessor was told is followed by what was expected and what is seen."""
    slow = run(
        2, 1, throughput=100.0, throughput_spread=0.01, unit="samples", findings=(HeldFinding("gloo", (1.5, 3.0)),)
    )
    _keep(state, slow, run(2, 2, throughput=200.0, throughput_spread=0.01, unit="samples"))
    assert main(["history"]) == 0
    *_, head, said = capsys.readouterr().out.splitlines()
    assert head == "What changes brought"
    assert said.startswith("2026-09-21T14:56:40Z  acme  3da52899: By what it reports it is 2.00 ± 0.0")
    assert said.endswith("holds no longer: as expected (1.5 to 3).")
    assert main(["history", "--format", "json"]) == 0
    now, before = json.loads(capsys.readouterr().out)["runs"]
    assert (now["changed"], now["gain_seen"], now["gain_result"]) == (["gloo"], 2.0, "as expected")
    assert (before["findings"], before["changed"], before["gain_seen"]) == (["gloo"], [], None)


def test_nothing_yet(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file the table says so, JSON and CSV are empty, and no file is made."""
    assert main(["history"]) == 0
    assert capsys.readouterr().out == "No run is remembered yet.\n"
    assert main(["history", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "runs": []}
    assert list(state.iterdir()) == []


def test_exports_agree(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV and JSON hold the same figures under the same names; missing is empty there and null here."""
    _keep(state, run(2, 1), run(4, 2, split=None, energy_joules_per_step=12.5))
    assert main(["history", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["history", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["gpu_job"] for row in rows] == [one["gpu_job"] for one in document["runs"]]
    first = document["runs"][0]
    assert (first["gpu_count"], first["gpus"], first["time_ratio_compute"]) == (4, [0, 1, 2, 3], None)
    assert (rows[0]["gpu_count"], rows[0]["gpus"], rows[0]["time_ratio_compute"]) == ("4", "0 1 2 3", "")
    assert rows[0]["energy_joules_per_step"] == "12.5"
    assert rows[0].keys() == first.keys()


def test_forgetting_a_tenant(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tenant's runs are gone, the others stay, and the sentence says how many there were."""
    path = _keep(state, run(2, 1, tenant="globex"), run(4, 2, tenant="globex"), run(8, 3))
    assert main(["history", "--forget", "globex"]) == 0
    assert capsys.readouterr().out == f"2 runs of globex deleted from {path}.\n"
    assert [one.tenant for one in read(path)[0]] == ["acme"]


def test_forgetting_without_a_file(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to delete: exit code 1 and one sentence."""
    assert main(["history", "--forget", "acme"]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_a_file_that_is_no_history(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Listing never changes or moves the file; it says that it cannot be read."""
    (state / "history.sqlite").write_bytes(b"noise" * 5000)
    assert main(["history"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert (state / "history.sqlite").exists()


def test_a_node_that_remembers_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Switched off by the configuration, the command says by which setting."""
    monkeypatch.setenv("GPUMON_HISTORY_ENABLED", "false")
    assert main(["history"]) == 1
    assert capsys.readouterr().err == "gpumon: history.enabled = false: this node remembers nothing\n"


def test_learned_rates_have_present_indices(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sets are named by where their cards are today, small sets first; sets with a card that is gone are left out."""
    cards = [view.card for view in geforce().cards]
    here = sorted(card.identity.uuid for card in cards[:2])
    gone = rate(2, 30e9)
    kept = SetRate(tuple(here), (6, 7), "pcie", 14.9e9, WALL_S)
    _keep(state, rates=(gone, kept))
    found = learned(cards, simulated=False)
    assert [(gpus, one.bytes_per_second) for gpus, one in found] == [
        (tuple(sorted(card.identity.index for card in cards[:2])), 14.9e9)
    ]


def test_topo_shows_and_plan_takes_learned_rates(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `gpumon topo --bandwidth --format json` prints is what `gpumon plan --learned` reads."""
    assert main(["topo", "--bandwidth", "--format", "json", "--simulate", "rtx5090-x8-ddp-bound"]) == 0
    document = json.loads(capsys.readouterr().out)
    uuids = tuple(sorted(card["uuid"] for card in document["gpus"]))
    path = state / "history-simulated.sqlite"
    with closing(Store.open(path, HistorySettings(), WALL_S)) as store:
        store.write([], [SetRate(uuids, (), "pcie", 6.3e9, WALL_S)])
    assert main(["topo", "--bandwidth", "--simulate", "rtx5090-x8-ddp-bound"]) == 0
    assert "6.3 GB/s  PCIe" in capsys.readouterr().out.splitlines()[-1]
    assert main(["topo", "--bandwidth", "--format", "json", "--simulate", "rtx5090-x8-ddp-bound"]) == 0
    text = capsys.readouterr().out
    (learnt,) = json.loads(text)["learned_rates"]
    assert (len(learnt["gpus"]), learnt["bytes_per_second"]) == (len(uuids), 6.3e9)
    file = state / "topo.json"
    file.write_text(text)
    plan = ["plan", "--model", "8B", "--card", "rtx4090", "--gpus", str(len(uuids)), "--learned", str(file)]
    assert main([*plan, "--method", "lora", "--format", "json"]) == 0
