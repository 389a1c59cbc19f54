"""Faults that users of neighbouring tools reported, as far as they concern who runs where."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from gpumon.jobs import devices
from gpumon.jobs.naming import UNATTRIBUTED, is_valid
from gpumon.model.fault import Fault
from gpumon.model.job import JobKind
from gpumon.model.process import Container

from .node import GIB, IDS, Node, cards_of, case_cards, docker


def case(shared: Path, name: str) -> Any:
    return json.loads((shared / "cases" / name).read_text("utf-8"))


def keys(entries: list[dict[str, Any]]) -> dict[devices.Device, str]:
    """Cards and slices of a case file -> their short keys."""
    found = {devices.Device(entry["uuid"]): entry["key"] for entry in entries}
    for entry in entries:
        found |= {devices.Device(entry["uuid"], one["uuid"]): one["key"] for one in entry.get("mig", ())}
    return found


def test_visible_devices(shared_dir: Path) -> None:
    """Every form of the device-selection variable gives its documented set, and none raises."""
    content = case(shared_dir, "visible-devices.json")
    cards, names = case_cards(content["gpus"]), keys(content["gpus"])
    for one in content["cases"]:
        found = devices.visible(one["value"], cards)
        chosen, want = [names[device] for device in found.devices], one["want"]
        if isinstance(want, list):
            assert (chosen, found.known) == (want, True), one
        elif "all" in want:
            assert chosen == ["a", "b", "c"]
        elif want.startswith("unknown"):
            assert (chosen, found.known) == ([], False), one
        else:
            assert len(chosen) == len(set(chosen)), one
    assert devices.visible("0,0", cards).devices == devices.visible("0", cards).devices


def test_shortened_uuids(shared_dir: Path) -> None:
    """A shortened UUID means the one card or slice it begins; letter case and the prefix count."""
    content = case(shared_dir, "uuid-prefix.json")
    cards, names = case_cards(content["gpus"]), keys(content["gpus"])
    for one in content["cases"]:
        found = devices.by_uuid(one["value"], cards)
        if isinstance(one["want"], list):
            assert found is not None
            assert [names[found]] == one["want"]
        else:
            assert found is None, one


def test_kubelet_device_ids(shared_dir: Path) -> None:
    """A kubelet's device id joins to its board or slice; an unknown form joins to nothing."""
    content = case(shared_dir, "mig-kubelet-ids.json")
    cards, names = case_cards(content["gpus"]), keys(content["gpus"])
    for one in content["devices"]:
        if one["want"] == "ignored":
            continue  # of another resource: nobody asks for it here
        found = devices.by_kubelet_id(one["id"], cards)
        assert (names[found] if found else "unknown") in one["want"].split(" or "), one


def test_slices_are_cards_of_their_own() -> None:
    """Two jobs on two slices of a board do not share a card."""
    content = [{"index": 0, "uuid": "GPU-x", "mig": [{"uuid": "MIG-1", "gi": 1}, {"uuid": "MIG-2", "gi": 2}]}]
    node = Node(cards=case_cards(content))
    for pid, mig in ((100, "MIG-1"), (200, "MIG-2")):
        node.start(pid, f"python {pid}.py", cgroup=docker(pid // 100))
        node.compute(pid, 0, mig=mig)
    first, second = node.settled()
    assert [(one.uuid, one.mig_uuid, one.shared) for one in first.cards] == [("GPU-x", "MIG-1", False)]
    assert [(one.uuid, one.mig_uuid, one.shared) for one in second.cards] == [("GPU-x", "MIG-2", False)]


def test_job_local_numbers(shared_dir: Path) -> None:
    """A job that sees its card as number 0 is joined to its real card by its process."""
    content = case(shared_dir, "attr-local-index.json")
    node = Node(cards=case_cards(content["gpus"]))
    for job in content["jobs"]:
        group = f"0::/system.slice/slurmstepd.scope/job_{job['job']}/step_0/user/task_0\n"
        node.start(job["pids"][0], cgroup=group, environ={"CUDA_VISIBLE_DEVICES": job["env_visible"]})
    for index, key in enumerate("pq"):
        for process in content["ticks"][0][key]["procs"]:
            node.compute(process["pid"], index, memory_bytes=float(process["used_bytes"]))
    found = {job.slurm_job_id: job.cards[0] for job in node.settled()}
    assert found["1"].uuid == content["gpus"][0]["uuid"]
    assert (found["2"].uuid, found["2"].memory_bytes) == (content["gpus"][1]["uuid"], 20 * GIB)


def test_two_tenants_on_one_card(shared_dir: Path) -> None:
    """Each tenant has its own processes' share of the card, and what they have together is not more than the card."""
    content = case(shared_dir, "attr-shared-gpu.json")
    node = Node(cards=case_cards(content["gpus"]))
    tick = content["ticks"][0]["a"]
    share = {entry["pid"]: entry["sm"] / 100 for entry in tick["proc_util"]}
    for process in tick["procs"]:
        group = f"0::/system.slice/docker-{content['containers'][process['owner']]}.scope\n"
        node.start(process["pid"] + 100, "python a.py", cgroup=group, start_ticks=process["pid"])
        node.compute(process["pid"] + 100, 0, memory_bytes=float(process["used_bytes"]), sm=share[process["pid"]])
    found = {job.container: [0.0, 0.0] for job in node.settled()}
    for job in node.settled():
        assert job.cards[0].shared
        found[job.container][0] += job.cards[0].sm_ratio
        found[job.container][1] += job.cards[0].memory_bytes
    x, y = (content["containers"][name][:12] for name in "xy")
    assert found[x] == [pytest.approx(0.5), 6 * GIB]
    assert found[y] == [pytest.approx(0.2), 4 * GIB]
    assert sum(one[0] for one in found.values()) <= tick["utilization"]["gpu"] / 100


def test_an_ended_job_is_gone(shared_dir: Path) -> None:
    """A job is gone with its last process, whatever a scheduler still says of it, and nothing of it is kept."""
    case(shared_dir, "attr-job-ended.json")
    pod = "0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope\n"
    node = Node()
    node.start(10, cgroup=pod.format("a" * 32, IDS[1]), cards=[0])
    (first,) = node.tick(5)
    node.end(10)
    assert node.tick() == ()
    assert node.memory.facts == {}
    assert node.memory.launches == {}
    node.tick(44)
    node.start(20, cgroup=pod.format("b" * 32, IDS[2]), cards=[0])
    (second,) = node.tick()
    assert second.gpu_job != first.gpu_job
    assert (second.pod, second.container) == ("b" * 32, IDS[2][:12])
    assert second.first_seen_s > first.first_seen_s
    assert repr(node.tick(50)) == repr((second,))  # as text: NaN is not equal to itself


def test_a_side_car_belongs_to_its_pod(shared_dir: Path) -> None:
    """A process in a container that no device list mentions is its pod's, by its control group."""
    content = case(shared_dir, "attr-sidecar.json")
    node = Node(cards=case_cards(content["gpus"]))
    node.start(77, cgroup=content["procfs"]["77/cgroup"], cards=[0])
    (job,) = node.settled()
    assert (job.kind, job.pod) == (JobKind.POD, content["kubelet"][0]["uid"])
    assert job.container == "556a9f935154"


def test_shares_of_a_card_need_the_drivers_word(shared_dir: Path) -> None:
    """Shares are the driver's per-process figures, and a busy process without a card has none."""
    content = case(shared_dir, "attr-energy-share.json")
    node = Node(cards=case_cards(content["gpus"]))
    for entry in content["ticks"][0]["a"]["proc_util"]:
        node.start(100 + entry["pid"], f"python {entry['owner']}.py", cgroup=docker(entry["pid"]))
        node.compute(100 + entry["pid"], 0, sm=entry["sm"] / 100)
    node.start(300, "stress", cpu_seconds=1e6)
    first, second = node.settled()
    assert first.cards[0].sm_ratio == pytest.approx(3 * second.cards[0].sm_ratio)


def test_clock_steps_do_not_change_identity(shared_dir: Path) -> None:
    """Steps of the wall clock leave a job as it is; a reused pid with another start is another job."""
    content = case(shared_dir, "proc-clock-step.json")
    node = Node()
    pid = content["process"]["pid"]
    node.start(pid, start_ticks=content["process"]["start_tick"], cards=[0])
    seen = set()
    for tick in content["ticks"]:
        node.boot_s = float(tick["btime"])
        (job,) = node.tick()
        seen.add((job.gpu_job, job.start_wall_s, job.first_seen_s))
    assert len(seen) == 1
    node.start(pid, start_ticks=9999999)
    (after,) = node.tick(3)
    assert after.gpu_job != job.gpu_job


def test_a_dead_process_keeps_its_memory_with_its_job(shared_dir: Path) -> None:
    """Memory of a dead or stuck process stays with its job although its control group cannot be read any more."""
    case(shared_dir, "proc-zombie-holds-memory.json")
    node = Node()
    node.start(31794, cgroup=docker(1), cards=[0], memory_bytes=5 * GIB, state="Z")
    (before,) = node.tick(10)
    node.change(31794, cgroup=Fault.NOT_FOUND, cmdline=())
    (job,) = node.tick(20)
    assert (job.gpu_job, job.cards[0].memory_bytes) == (before.gpu_job, 5 * GIB)
    node.change(31794, state="D")
    (job,) = node.tick(10)
    assert job.stuck_since_s == before.first_seen_s
    del node.processes[31794]  # procfs shows it no more, the driver does
    (job,) = node.tick(20)
    assert (job.gpu_job, job.cards[0].memory_bytes) == (before.gpu_job, 5 * GIB)


def test_scrambled_lists_do_no_harm(shared_dir: Path) -> None:
    """Of a list read with a wrong stride no process has more memory than the card, and no pid is invented."""
    content = case(shared_dir, "proc-abi-garbage.json")
    node = Node(cards=case_cards(content["gpus"]))
    node.start(1184)
    node.start(16040)
    for entry in content["ticks"][0]["a"]["procs"]:
        node.compute(entry["pid"], 0, memory_bytes=float(entry["used_bytes"]))
    for job in node.settled():
        assert all(math.isnan(one.memory_bytes) or one.memory_bytes <= 80 * GIB for one in job.cards)
        assert {pid for pid, _ in job.processes} <= {1184, 16040}


def test_memory_that_is_not_told_is_missing(shared_dir: Path) -> None:
    """A process whose memory the driver does not tell makes the job's memory missing, not zero."""
    case(shared_dir, "proc-race.json")
    node = Node()
    node.start(104, cards=[0], memory_bytes=math.nan)
    node.start(105, cards=[1])
    first, second = node.settled()
    assert math.isnan(first.cards[0].memory_bytes)
    assert second.cards[0].memory_bytes == GIB


def test_foreign_pids_name_nobody(shared_dir: Path) -> None:
    """Without the host's pids cards with unknown processes are one job of nobody, and no local process is named."""
    content = case(shared_dir, "proc-namespace.json")
    node = Node(cards=case_cards(content["gpus"]), foreign=True)
    node.start(1, "gpumon run", cgroup="0::/\n")
    node.start(37, "sh", cgroup="0::/\n")
    for entry in content["runs"][0]["ticks"][0]["a"]["procs"]:
        node.compute(entry["pid"], 0)
    (job,) = node.settled()
    assert (job.kind, job.gpu_job, job.processes) == (JobKind.UNATTRIBUTED, UNATTRIBUTED, ())
    host = Node(cards=case_cards(content["gpus"]))
    host.start(4242, "trainer", cgroup=content["runs"][1]["host_procfs"]["4242/cgroup"], cards=[0])
    (job,) = host.settled()
    assert job.container == "249529523f67"


def test_equal_names_and_double_lists(shared_dir: Path) -> None:
    """One process listed twice, on two cards, for computing and for graphics, is one process with each card once."""
    content = case(shared_dir, "label-duplicates.json")
    node = Node(cards=case_cards(content["gpus"]))
    for container in content["containers"]:
        node.containers[container["id"]] = Container(container["id"], container["name"], "docker", "", {})
    group = f"0::/system.slice/docker-{content['containers'][0]['id']}.scope\n"
    node.start(11, cgroup=group)
    for index, key in enumerate("ab"):
        listed = content["ticks"][0][key]
        for _ in (*listed["procs"], *listed.get("graphics_procs", ())):
            node.compute(11, index)
    (job,) = node.settled()
    assert len(job.processes) == 1
    assert cards_of(job) == [0, 1]
    assert [one.memory_bytes for one in job.cards] == [GIB, GIB]


def test_a_flood_of_names(shared_dir: Path) -> None:
    """Ten thousand short processes with names of their own make a bounded number of jobs and leave nothing behind."""
    flood = case(shared_dir, "label-flood.json")["generator"]
    node = Node()
    node.start(10, "bash", cgroup=docker(1))
    names: list[set[str]] = []
    step = 3 * flood["per_second"]
    for first in range(0, flood["processes"], step):
        pids = range(1000 + first, 1000 + first + step)
        for pid in pids:
            comm = flood["comm"].format(n=pid)
            node.start(pid, (f"/tmp/{comm}",), cgroup=docker(1), cards=[0], ppid=10, comm=comm)
        names.append({job.gpu_job for job in node.tick(2)})
        node.end(*pids)
    window = 300 // 6  # five minutes of ticks: series of ended jobs stay that long
    for end in range(window, len(names), 25):
        assert len(set().union(*names[end - window : end])) <= 80
    assert all(is_valid(name) for name in set().union(*names))
    node.tick(2)
    assert node.memory.jobs == ()
    assert len(node.memory.facts) <= 1
    node.tick(110)
    assert node.memory.births == {}


@pytest.mark.parametrize("listing", ["label-escape.json"])
def test_odd_names_go_nowhere(shared_dir: Path, listing: str) -> None:
    """Process names with newlines, quotes and braces appear in no field that becomes a label."""
    node = Node()
    comms = [comm for comm in case(shared_dir, listing)["comms"] if comm]
    for number, comm in enumerate(comms):
        node.start(100 + number, (comm, f"--x={comm}"), cards=[number], comm=comm)
    found = node.settled()
    assert len(found) == len(comms)
    safe = re.compile(r"[A-Za-z0-9_.:+-]*")
    for job in found:
        labels = [job.gpu_job, job.tenant, job.container, job.pod, job.namespace, job.slurm_job_id, job.user]
        labels += [job.layout.framework, job.layout.launcher, job.layout.asked, job.layout.group]
        assert all(safe.fullmatch(label) for label in labels)


def test_many_container_labels_become_none(shared_dir: Path) -> None:
    """Labels of a container, however many and long, stay out of the job."""
    labels = case(shared_dir, "label-too-many.json")["pod_labels"]
    node = Node()
    node.containers[IDS[1]] = Container(IDS[1], "n" * 5000, "docker", "", labels)
    node.start(100, cgroup=docker(1), cards=[0])
    (job,) = node.settled()
    text = repr(job)
    assert not any(key in text for key in labels)
    assert len(text) < 3000


def test_memory_is_flat_over_ten_thousand_births() -> None:
    """What attribution carries after ten thousand births and deaths is what it carried after the first hundred."""
    node = Node()
    sizes = []
    for first in range(0, 10_000, 20):
        pids = range(1000 + first, 1020 + first)
        for pid in pids:
            node.start(pid, f"python {pid}.py", cgroup=docker(pid % 50), cards=[pid % 8])
        node.tick(2)
        node.end(*pids)
        memory = node.memory
        sizes.append(len(memory.facts) + len(memory.launches) + len(memory.launch_of) + len(memory.waiting))
    assert max(sizes[5:]) <= max(sizes[:5])
    assert len(node.memory.births) <= 50
