"""`gpumon topo` and `gpumon doctor` as a person calls them, on scripted nodes."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.cli import looking
from gpumon.cli.main import main
from gpumon.model.fault import Fault
from gpumon.model.topology import PciGpu, Topology
from gpumon.sampling.clocks import CountingClock

from .conftest import ScriptedNode, make_card

Use = Callable[[ScriptedNode], ScriptedNode]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let the commands find the given node, as this machine's and as the simulated one."""

    def patch(node: ScriptedNode) -> ScriptedNode:
        at = looking.Looking(node, lambda _card: CountingClock())
        monkeypatch.setattr(looking, "at_machine", lambda: at)
        monkeypatch.setattr(looking, "at_scenario", lambda _scenario: at)
        monkeypatch.delenv("GPUMON_CONFIG", raising=False)
        return node

    return patch


def test_topo_draws_the_node(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """The picture goes to standard output, the node is closed, the exit code is 0."""
    node = use(ScriptedNode())
    assert main(["topo"]) == 0
    assert "shared by cards 0, 1" in capsys.readouterr().out
    assert node.closed == 1


def test_topo_says_when_no_rates_were_learned(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """--bandwidth without history says so."""
    use(ScriptedNode())
    assert main(["topo", "--bandwidth"]) == 0
    assert capsys.readouterr().out.endswith("Rates learned for sets of cards: none yet.\n")


def test_topo_as_json(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """--format json prints one document with the learned rates only when asked."""
    use(ScriptedNode())
    assert main(["topo", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["uplinks"][0]["gpus"] == [0, 1]
    assert "learned_rates" not in answer


def test_topo_without_a_driver(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """A driver that does not answer is exit code 1 and one sentence on standard error."""
    use(ScriptedNode(cards=Fault.DRIVER_NOT_LOADED, topology=Topology()))
    assert main(["topo"]) == 1
    assert capsys.readouterr().err == (
        "gpumon: the driver does not answer (driver_not_loaded); `gpumon doctor` says what to do\n"
    )


def test_topo_on_a_host_of_guests(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """Where all cards belong to guests, no driver is expected and nothing is wrong."""
    cards = (PciGpu("0000:21:00.0", "vfio-pci", 16, 16),)
    use(ScriptedNode(cards=Fault.DRIVER_NOT_LOADED, topology=Topology(pci_gpus=cards)))
    assert main(["topo"]) == 0
    assert "vfio-pci" in capsys.readouterr().out


def test_doctor_measures_and_closes(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks and tables are printed and the node is closed."""
    node = use(ScriptedNode())
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "Overlap of 20 ms windows:" in out
    assert "0 failed" in out
    assert node.closed == 1


def test_doctor_finds_a_lost_card(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """A failed check is exit code 1; the other card is still measured."""
    use(ScriptedNode(cards=(make_card(0, fault=Fault.LOST), make_card(1))))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "Card 0 (0000:11:00.0) cannot be used: lost." in out
    assert "Cost of a reader's calls, card 1" in out


def test_doctor_with_a_broken_configuration(use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mistakes in the configuration are failed checks, and everything else is still examined."""
    use(ScriptedNode())
    config = tmp_path / "gpumon.toml"
    config.write_text('[nonsense]\nx = 1\n[http]\nlisten = "nowhere"\n', "utf-8")
    assert main(["doctor", "--config", str(config), "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert sum(row["check"] == "config" for row in answer["checks"]) == 2
    assert answer["measured"]["costs"]


def test_bundle_of_a_node_holds_no_configuration(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The support file holds the answers and the topology, and nothing from the configuration or environment."""
    use(ScriptedNode())
    config = tmp_path / "gpumon.toml"
    config.write_text('[http]\nlisten = "127.0.0.1:9836"\n# hunter2\n', "utf-8")
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    monkeypatch.setattr("gpumon.doctor.bundle.device_query", str)
    monkeypatch.setattr("gpumon.doctor.bundle.daemon_minute", lambda _url, _wait: '{"schema": 1}')
    file = tmp_path / "bundle.tar.gz"
    assert main(["doctor", "--config", str(config), "--bundle", str(file)]) == 0
    with tarfile.open(file) as archive:
        assert sorted(archive.getnames()) == [
            "gpumon-bundle/doctor.json",
            "gpumon-bundle/doctor.txt",
            "gpumon-bundle/state.jsonl",
            "gpumon-bundle/topology.json",
            "gpumon-bundle/topology.txt",
        ]
        for member in archive.getmembers():
            stream = archive.extractfile(member)
            assert stream is not None
            assert b"hunter2" not in stream.read()
    assert "holds doctor.txt" in capsys.readouterr().err


def test_bundle_that_cannot_be_written(use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong path is one sentence, after the answer was printed."""
    use(ScriptedNode())
    file = tmp_path / "nowhere/bundle.tar.gz"
    assert main(["doctor", "--bundle", str(file)]) == 1
    captured = capsys.readouterr()
    assert "0 failed" in captured.out
    assert captured.err == (
        f"gpumon: --bundle {file}: cannot be written: No such file or directory. Give a file you may create.\n"
    )


@pytest.mark.parametrize("command", ["topo", "doctor"])
def test_unknown_scenario_is_one_sentence(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario that does not exist is named, without a traceback."""
    assert main([command, "--simulate", "no-such"]) == 1
    assert "no-such" in capsys.readouterr().err


def test_simulated_node_is_examined_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """On the simulated 8-card node sources agree, windows overlap, and it is said that nothing is real."""
    assert main(["doctor", "--simulate", "rtx5090-x8-tp-train", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["node"]["simulated"] is True
    assert [row["verdict"] for row in answer["measured"]["overlap"]] == ["overlap", "overlap"]
    assert answer["measured"]["driver_calls"] == []
    assert {row["meaning"] for row in answer["measured"]["agreement"]["ratios"]} == {"they agree"}
