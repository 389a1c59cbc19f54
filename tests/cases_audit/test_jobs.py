"""Reported kinds PROC, CGRP, ATTR and LABEL on the page: from driver list and procfs to the labels of a series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.procfs import ProcfsHost
from gpumon.model.settings import Settings
from tests.cases_audit.watched import Page, Watched
from tests.nvml.cases import cards, case
from tests.procfs.test_host import namespace_tree
from tests.procfs.tree import IDS, Tree
from tests.standin.library import Standin

pytestmark = pytest.mark.tools

Watch = Callable[..., Watched]
GIB = 1 << 30


def docker(number: int) -> str:
    """Return the control group of a Docker container."""
    return f"0::/system.slice/docker-{IDS[number]}.scope\n"


def shared(folder: Path, name: str) -> dict[str, object]:
    """Return the content of a case file that has no cards of its own."""
    import json

    content: dict[str, object] = json.loads((folder / "cases" / f"{name}.json").read_text("utf-8"))
    return content


def test_a_scrambled_list_names_nobody(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 55: of a list that makes no sense as a whole nothing is used, and the page counts it."""
    content = case("proc-abi-garbage")
    standin.apply(*cards(content))
    entries = ";".join(f"{row['pid']}/{row['used_bytes']}" for row in content["ticks"][0]["a"]["procs"])
    standin.apply(f"set 0 GetComputeRunningProcesses {entries}")
    tree.process(1184)
    page = watch().tick(12)
    assert not page.label_sets("job_info")
    assert (page.value("readings_rejected_total", reason="process_list") or 0) >= 1


def test_foreign_pids_on_the_page(standin: Standin, node: NvmlNode, tmp_path: Path, shared_dir: Path) -> None:
    """Report 56: with pids of another namespace the cards' job is nobody's, and no local process appears."""
    content = shared(shared_dir, "proc-namespace")
    run = content["runs"][0]  # type: ignore[index]
    root = namespace_tree(tmp_path, run["procfs"])
    standin.apply(
        "card 0 minor 0", "set * GetSamples !3", f"set 0 GetComputeRunningProcesses 1/{GIB};37/{GIB};4242/{GIB}"
    )
    page = Watched(node, ProcfsHost(procfs_root=root, sysfs_root=tmp_path / "sys")).tick(15)
    (labels,) = page.label_sets("job_info")
    assert (labels["kind"], labels["user"], labels["container"]) == ("unattributed", "", "")
    assert page.values("job_processes") == [0.0]


def test_a_process_that_vanished_costs_itself_only(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 57: of five listed processes those that are there have their job; memory not told has no series."""
    standin.apply("card 0 minor 0", "card 1 minor 1", f"set 0 GetComputeRunningProcesses 101/{GIB};105/{GIB}")
    standin.apply("set 1 GetComputeRunningProcesses 106/na")
    tree.process(105, cgroup=docker(1))
    tree.process(106, cgroup=docker(2))
    page = watch().tick(15)
    found = {labels["container"]: labels["gpu_job"] for labels in page.label_sets("job_info") if labels["container"]}
    assert set(found) == {IDS[1][:12], IDS[2][:12]}
    assert page.value("job_gpu_memory_bytes", gpu_job=found[IDS[1][:12]]) == GIB
    assert page.value("job_gpu_memory_bytes", gpu_job=found[IDS[2][:12]]) is None


@pytest.mark.parametrize("state", ["Z", "D"])
def test_a_dead_process_that_holds_memory(standin: Standin, watch: Watch, tree: Tree, state: str) -> None:
    """Report 59: its memory stays with its job, and after a while the operator hears of it; a short stop is nothing."""
    standin.apply("card 0 minor 0", f"set 0 GetComputeRunningProcesses 31794/{5 * GIB}")
    tree.process(31794, cgroup=docker(1))
    watched = watch()
    (before,) = watched.tick(10).label_sets("job_info")
    tree.process(31794, cgroup="0::/\n" if state == "Z" else docker(1), state=state)
    page = watched.tick(60)
    assert "process_stuck" not in {labels["finding"] for labels in page.label_sets("node_finding")}
    page = watched.tick(120)
    assert page.label_sets("job_info") == [before]
    assert page.values("job_gpu_memory_bytes") == [5 * GIB]
    assert {(one["finding"], one["audience"]) for one in page.label_sets("node_finding")} == {
        ("process_stuck", "operator")
    }
    tree.process(31794, cgroup=docker(1))
    assert not watched.tick(60).label_sets("node_finding")


def test_a_shared_card_is_told_once(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 81: the card's figures carry no tenant, and no job on it claims its power or its utilization."""
    standin.apply("card 0 minor 0", f"set 0 GetComputeRunningProcesses 11/{6 * GIB};12/{4 * GIB}")
    standin.apply("set 0 GetUtilizationRates 71,10", "set 0 GetFieldValue:186 140000")
    tree.process(11, cgroup=docker(1))
    tree.process(12, cgroup=docker(2))
    page = watch().tick(15)
    assert page.values("gpu_power_watts") == [140.0]
    assert page.values("gpu_utilization_ratio") == [0.71]
    assert sorted(page.values("job_gpu_memory_bytes")) == [4 * GIB, 6 * GIB]
    assert not page.values("job_power_watts")
    assert not page.values("job_energy_joules_total")


def test_an_ended_job_leaves(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 82: a job's gauges go with it, its totals stay five minutes, and a new one inherits nothing."""
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses 10/1000")
    tree.process(10, cgroup=docker(1))
    watched = watch()
    (first,) = watched.tick(10).label_sets("job_info")
    card = watched.tick().names(gpu="0", uuid=watched.view.cards[0].card.identity.uuid)
    tree.end(10)
    standin.apply("set 0 GetComputeRunningProcesses -")
    page = watched.tick(20)
    assert page.names(gpu_job=first["gpu_job"]) <= {
        "job_info",
        "job_bottleneck_seconds_total",
        "job_time_seconds_total",
        "job_energy_joules_total",
    }
    tree.process(20, cgroup=docker(2))
    standin.apply("set 0 GetComputeRunningProcesses 20/1000")
    page = watched.tick(300)
    (second,) = page.label_sets("job_info")
    assert (second["container"], first["container"]) == (IDS[2][:12], IDS[1][:12])
    assert page.names(gpu="0", uuid=watched.view.cards[0].card.identity.uuid) == card


def card_lines(page: Page) -> set[object]:
    """Return the card-level series of a page by name and labels."""
    return {key for key in page.samples if not key[0].startswith("job_") and "uuid" in dict(key[1])}


def test_card_series_do_not_change_with_their_tenant(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 83: under one tenant, none and another, a card's label sets are the same, and none is the scraper's."""
    standin.apply("card 0 minor 0")
    watched = watch()
    seen = []
    for pid in (10, 0, 20):
        if pid:
            tree.process(pid, cgroup=docker(pid))
        standin.apply(f"set 0 GetComputeRunningProcesses {f'{pid}/1000' if pid else '-'}")
        seen.append(card_lines(watched.tick(20)))
    assert seen[0] == seen[1] == seen[2]
    labels = {name for _, pairs in watched.tick().samples for name, _ in pairs}
    assert not labels & {"job", "instance"}


def test_one_series_for_each_label_set(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 92: equal cards, a process listed twice and on two lists: the page has no label set twice (Page fails)."""
    standin.apply("card 0 name Same", "card 1 name Same", "set 0 GetComputeRunningProcesses 11/1000;11/1000")
    standin.apply("set 0 GetGraphicsRunningProcesses 11/1000", "set 1 GetComputeRunningProcesses 11/1000")
    tree.process(11, cgroup=docker(1))
    page = watch().tick(15)
    assert page.values("job_processes") == [1.0]
    assert len(page.label_sets("job_gpu_info")) == 2


def test_a_flood_of_processes(standin: Standin, watch: Watch, tree: Tree) -> None:
    """Report 93: short processes with names of their own make no series of their own, and leave none behind."""
    standin.apply("card 0 minor 0")
    watched = watch()
    calm = watched.tick(5)
    sizes = []
    for batch in range(60):
        pids = range(1000 + 15 * batch, 1015 + 15 * batch)
        for pid in pids:
            tree.process(pid, [f"/tmp/w{pid:05d}"], comm=f"w{pid:05d}", cgroup=docker(1))
        standin.apply("set 0 GetComputeRunningProcesses " + ";".join(f"{pid}/1000" for pid in pids))
        page = watched.tick(3)
        sizes.append(len(page.samples))
        assert len(page.label_sets("job_info")) <= 33 + 15
        assert not [text for _, pairs in page.samples for _, text in pairs if "/tmp" in text or text.startswith("w0")]
        for pid in pids:
            tree.end(pid)
    assert max(sizes[30:]) <= max(sizes[:30]) + 15 * 60
    standin.apply("set 0 GetComputeRunningProcesses -")
    after = watched.tick(320)
    added = {key[0] for key in after.samples.keys() - calm.samples.keys()}
    assert added <= {"series_dropped_total", "nvml_errors_total", "readings_rejected_total"}


def test_odd_names_do_no_harm(standin: Standin, watch: Watch, tree: Tree, shared_dir: Path) -> None:
    """Report 95: a process of any name makes one job with safe labels, and a strict parser reads the page."""
    comms = [comm for comm in shared(shared_dir, "label-escape")["comms"] if comm]  # type: ignore[attr-defined]
    listed = []
    for number, comm in enumerate(comms):
        tree.process(100 + number, [comm, f"--x={comm}"], comm=comm.replace("\n", "_"), cgroup=docker(number + 1))
        listed.append(f"{100 + number}/1000")
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses " + ";".join(listed))
    page = watch().tick(15)
    assert len(page.label_sets("job_info")) == len(comms)
    assert not [text for _, pairs in page.samples for _, text in pairs if text and text in comms]


def test_two_lives_in_one_process(standin: Standin, node: NvmlNode, tree: Tree) -> None:
    """Report 97: made, dropped and made again in one process, pages are whole each time and repeat nothing."""
    standin.apply("card 0 minor 0", "set * GetSamples !3")
    names = []
    for _ in range(3):
        watched = Watched(node, ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys), Settings())
        names.append(watched.tick(3).names())
        node.close()
    assert names[0] == names[1] == names[2]
