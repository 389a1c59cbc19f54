"""Control group files of runtimes, schedulers and systemd, as places."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.jobs import cgroup
from gpumon.model.job import JobKind

A = "249529523f6782afa862b0f43043e3dd2251e3fa8c89837e2a44fac46e52faa8"
B = "556a9f9351548cf7f96a20e2a1d14464708c27113827cf9b18b7c24520017a15"
POD = "576e0b9b-829b-46a8-84f6-5baba16ed75a"
POD_ = POD.replace("-", "_")


def cases(shared: Path, name: str) -> list[dict[str, object]]:
    return json.loads((shared / "cases" / name).read_text("utf-8"))["cases"]


@pytest.mark.parametrize(
    "name", ["cgroup/crio-forms.json", "cgroup/podman-forms.json", "cgroup/kubepods-forms.json", "slurm-paths.json"]
)
def test_reported_spellings(shared_dir: Path, name: str) -> None:
    """Every spelling that users of other tools reported gives its container, pod, owner and job."""
    for case in cases(shared_dir, name):
        place, want = cgroup.parse(case["content"]), case["want"]
        assert place.container_id == (want.get("container") or ""), case["content"]
        assert not place.ambiguous
        if "pod" in want:
            assert place.pod_uid == want["pod"]
        if "runtime" in want:
            assert place.runtime in want["runtime"].split(" or ") or (
                not place.runtime and "unknown" in want["runtime"]
            )
        if "qos" in want:
            assert place.qos == want["qos"]
        if "owner_uid" in want:
            assert place.owner_uid == want["owner_uid"]
        if "uid" in want:
            assert place.owner_uid == want["uid"]
        if "job" in want:
            assert place.slurm_job_id == (want["job"] or "")
        if "step" in want:
            assert place.slurm_step == want["step"]
        if want.get("kind") == "login session":
            assert place.kind is JobKind.SESSION


def test_host_services_are_no_containers(shared_dir: Path) -> None:
    """The runtimes' own services, sessions and the root group are never a container or a scheduler's job."""
    for case in cases(shared_dir, "cgroup/host-services.json"):
        place = cgroup.parse(case["content"])
        assert (place.container_id, place.slurm_job_id, place.pod_uid) == ("", "", "")
        assert place.kind in (None, JobKind.SESSION, JobKind.UNIT)
        name = case["content"].strip().rpartition("/")[2]
        if name.partition(".")[0] in {"docker", "containerd", "kubelet", "slurmd", "podman", "gpumon"}:
            assert place.kind is None
            assert place.unit == name
            assert cgroup.is_host_service(place)


def text_case(shared: Path, name: str) -> str:
    lines = (shared / "cases/cgroup" / name).read_text("utf-8").splitlines()
    return "".join(f"{line}\n" for line in lines if not line.startswith("#"))


def test_nested_docker(shared_dir: Path) -> None:
    """Of two nested containers the inner one is meant, and the outer one is kept as its parent."""
    place = cgroup.parse(text_case(shared_dir, "docker-nested-v1.txt"))
    assert place.container_id.startswith("8276018c4946")
    assert [one[:12] for one in place.chain] == ["decee2102765", "8276018c4946"]


def test_controllers_that_disagree(shared_dir: Path) -> None:
    """Lines that show the root know nothing; two different ids in one file are ambiguous and give nothing."""
    text = text_case(shared_dir, "docker-mixed-v1.txt")
    assert cgroup.parse(text).container_id.startswith("6eb366f3e094")
    place = cgroup.parse(text + f"14:misc:/docker/{A}\n")
    assert place.ambiguous
    assert place.container_id == ""
    assert place.kind is None


def test_outer_path_of_one_controller_is_no_contradiction() -> None:
    """A controller that stops at the outer container agrees with one that goes on to the inner."""
    assert cgroup.parse(f"2:cpu:/docker/{A}\n1:name=systemd:/docker/{A}/docker/{B}\n").container_id == B


@pytest.mark.parametrize(
    ("path", "kind", "container", "extra"),
    [
        (f"/system.slice/docker-{A}.scope", JobKind.CONTAINER, A, {"runtime": "docker", "owner_uid": -1}),
        (f"/docker/{A}/init", JobKind.CONTAINER, A, {"runtime": "docker"}),
        (f"/system.slice/nerdctl-{A}.scope", JobKind.CONTAINER, A, {"runtime": "containerd"}),
        (f"/default/{A}", JobKind.CONTAINER, A, {"runtime": "containerd"}),
        (f"/ecs/1f2e/{A}", JobKind.CONTAINER, A, {}),
        (f"/system.slice:docker:{A}", JobKind.CONTAINER, A, {"runtime": "docker"}),
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{POD_}.slice:cri-containerd:{A}",
            JobKind.POD,
            A,
            {"pod_uid": POD, "runtime": "containerd"},
        ),
        (f"/machine.slice/libpod-{A}.scope", JobKind.CONTAINER, A, {"runtime": "podman"}),
        (f"/system.slice/web.service/libpod-payload-{A}", JobKind.CONTAINER, A, {"runtime": "podman"}),
        (f"/libpod_parent/libpod-{A}", JobKind.CONTAINER, A, {"runtime": "podman"}),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope",
            JobKind.CONTAINER,
            A,
            {"runtime": "docker", "owner_uid": 1000},
        ),
        ("/lxc/train/init.scope", JobKind.CONTAINER, "train", {"runtime": "lxc"}),
        ("/lxc.payload.train/init.scope", JobKind.CONTAINER, "train", {"runtime": "lxc"}),
        (f"/lxc.payload.vps7/system.slice/docker-{A}.scope", JobKind.CONTAINER, A, {"chain": ("vps7", A)}),
        ("/machine.slice/machine-alpine.scope", JobKind.CONTAINER, "alpine", {"runtime": "nspawn"}),
        ("/machine.slice/machine-qemu\\x2d3\\x2dvps.scope/libvirt/emulator", JobKind.VM, "", {}),
        ("/machine/qemu-3-vps.libvirt-qemu/emulator", JobKind.VM, "", {}),
        ("/qemu.slice/104.scope", JobKind.VM, "", {}),
        ("/system.slice/ollama.service", JobKind.UNIT, "", {"unit": "ollama.service"}),
        ("/system.slice/system-jupyter.slice/jupyter@bob.service", JobKind.UNIT, "", {"unit": "jupyter@bob.service"}),
        ("/system.slice/ssh.service", JobKind.SESSION, "", {}),
        ("/user.slice/user-1000.slice/session-c3.scope", JobKind.SESSION, "", {"session": "c3", "owner_uid": 1000}),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/run-u3.service", JobKind.SESSION, "", {}),
        ("/lxc.monitor.train", None, "", {}),
    ],
)
def test_runtimes(path: str, kind: JobKind | None, container: str, extra: dict[str, object]) -> None:
    """Each runtime's, machine's and manager's own spelling is understood."""
    place = cgroup.parse(f"0::{path}\n")
    assert (place.kind, place.container_id) == (kind, container)
    for name, value in extra.items():
        assert getattr(place, name) == value


@pytest.mark.parametrize(
    "path",
    [
        "/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_7/step_0",
        f"/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod{POD_}.slice",
        f"/docker/{A}/slurm/uid_1/job_7/step_0",
        f"/docker/{A}/kubepods.slice/kubepods-pod{POD_}.slice",
        "/system.slice/evil.service/slurm/uid_0/job_7/step_0",
        "/system.slice/evil.service/slurmstepd.scope/job_7/step_0",
        f"/system.slice/evil.service/kubepods.slice/kubepods-pod{POD_}.slice",
    ],
)
def test_names_a_tenant_may_choose_prove_nothing(path: str) -> None:
    """A group below a user's or a container's own subtree cannot pose as a Slurm job or a pod."""
    place = cgroup.parse(f"0::{path}\n")
    assert (place.slurm_job_id, place.pod_uid) == ("", "")


def test_rootless_container_keeps_its_owner() -> None:
    """A container below a user's subtree is never that of the host's runtime, whatever id its group is named after."""
    forged = cgroup.parse(f"0::/user.slice/user-1001.slice/user@1001.service/app.slice/docker-{A}.scope\n")
    assert forged.owner_uid == 1001


IDS = st.sampled_from([A, B, "train", POD, POD_, "1001", "4242"])
WORDS = st.one_of(
    st.sampled_from(
        f"docker docker-{A}.scope {A} kubepods.slice kubepods-pod{POD_}.slice pod{POD} crio-{B}.scope slurm "
        "uid_7 job_9 slurmstepd.scope step_0 user.slice user-1000.slice user@1000.service session-3.scope system.slice "
        f"lxc lxc.payload.x machine.slice machine-qemu\\x2d1.scope x.service .. (deleted) libpod-conmon-{A}.scope "
        f"a:b:{A}".split()
    ),
    st.text(max_size=12),
)
PATHS = st.lists(WORDS, max_size=8).map(lambda words: "/" + "/".join(words))
LINES = st.tuples(st.sampled_from(["0::", "3:cpu,cpuacct:", "1:name=systemd:", "", ":", "x"]), PATHS).map("".join)
FILES = st.one_of(st.text(), st.lists(LINES, max_size=6).map("\n".join))


@given(FILES)
@settings(max_examples=400, deadline=None)
def test_never_raises_and_never_invents(text: str) -> None:
    """Whatever the file holds, nothing is raised, and every id that is named stands in the text."""
    place = cgroup.parse(text)
    for one in place.chain:
        assert one in text
    for one in (place.slurm_job_id, place.unit, place.session, place.machine):
        assert not one or one in text or one == "conmon"
    assert not place.pod_uid or place.pod_uid in text or place.pod_uid.replace("-", "_") in text
    assert place.owner_uid == -1 or re.search(rf"\b0*{place.owner_uid}\b|_{place.owner_uid}|0*{place.owner_uid}", text)
    if place.ambiguous:
        assert (place.kind, place.chain, place.pod_uid, place.slurm_job_id) == (None, (), "", "")
