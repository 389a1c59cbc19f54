"""Whose job it is: ordered rules over what the host vouches for, and nobody as somebody else."""

from __future__ import annotations

import re

import pytest

from gpumon.model.job import Job, JobKind
from gpumon.model.process import Container
from gpumon.model.settings import Settings, TenantRule, TenantSettings

from .node import IDS, SESSION, Node, cards_of, docker, tenants

POD = "0123456789abcdef" * 2
ROOTLESS = "0::/user.slice/user-1001.slice/user@1001.service/app.slice/docker-{}.scope\n"


def container(number: int, name: str = "", *, owner_uid: int = -1, **labels: str) -> Container:
    return Container(IDS[number], name, "docker", "", labels, owner_uid=owner_uid)


def only(node: Node) -> Job:
    (job,) = node.settled()
    return job


def by_card(node: Node) -> list[Job]:
    return sorted(node.settled(), key=cards_of)


@pytest.mark.parametrize(
    "rule",
    [
        TenantRule("acme", container_label=("team", "acme")),
        TenantRule("acme", container_name=re.compile("^acme-")),
        TenantRule("acme", cgroup=re.compile(IDS[1][:12])),
        TenantRule("acme", container_label=("team", "acme"), container_name=re.compile("7$")),
    ],
)
def test_rules_over_containers(rule: TenantRule) -> None:
    """A label's whole value, a pattern of the name or of the control group decides."""
    node = Node(settings=tenants(rule))
    node.containers[IDS[1]] = container(1, "acme-7", team="acme")
    node.start(100, cgroup=docker(1), cards=[0])
    job = only(node)
    assert job.tenant == "acme"
    assert job.tenant_rule.startswith("rule 1: ")


def test_the_first_rule_that_matches_decides() -> None:
    """Rules are asked in order, every pattern of a rule must match, and no match is nobody."""
    rules = tenants(
        TenantRule("a", container_label=("team", "x"), unix_user="alice"),
        TenantRule("b", unix_user="alice"),
        TenantRule("c", unix_user="alice"),
    )
    node = Node(settings=rules)
    node.start(100, cards=[0])
    node.start(200, cards=[1], uid=1001, cgroup="0::/user.slice/user-1001.slice/session-9.scope\n")
    first, second = node.settled()
    assert (first.tenant, first.tenant_rule) == ("b", "rule 2: unix_user alice")
    assert (second.tenant, second.tenant_rule) == ("unassigned", "")


def test_a_tenant_outside_the_list_is_never_made() -> None:
    """A rule for a tenant that the list does not have decides nothing."""
    node = Node(settings=Settings(tenants=TenantSettings((), (TenantRule("ghost", unix_user="alice"),))))
    node.start(100, cards=[0])
    assert only(node).tenant == "unassigned"


def test_namespaces_of_pods() -> None:
    """A namespace is believed of a pod's container, as the kubelet labelled it, and of nothing else."""
    node = Node(settings=tenants(TenantRule("acme", namespace="acme-prod")))
    node.containers[IDS[1]] = container(1, **{"io.kubernetes.pod.namespace": "acme-prod"})
    node.containers[IDS[2]] = container(2, **{"io.kubernetes.pod.namespace": "acme-prod"})
    pod = f"0::/kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{IDS[1]}.scope\n"
    node.start(100, cgroup=pod, cards=[0])
    node.start(200, cgroup=docker(2), cards=[1])
    first, second = by_card(node)
    assert (first.kind, first.namespace, first.tenant) == (JobKind.POD, "acme-prod", "acme")
    assert (second.namespace, second.tenant) == ("", "unassigned")


def test_slurm_accounts() -> None:
    """The account is that of the process Slurm started; a child that sets another one changes nothing."""
    node = Node(settings=tenants(TenantRule("acme", slurm_account="acme"), TenantRule("rich", slurm_account="rich")))
    base = "0::/system.slice/slurmstepd.scope/job_7/step_batch/{}\n"
    node.start(100, "slurmstepd: [7.batch]", comm="slurmstepd", uid=0, cgroup=base.format("slurm"))
    task = base.format("user/task_0")
    node.start(110, "bash script", ppid=100, cgroup=task, environ={"SLURM_JOB_ACCOUNT": "acme"})
    node.start(120, "python t.py", ppid=110, cgroup=task, cards=[0], environ={"SLURM_JOB_ACCOUNT": "rich"})
    assert only(node).tenant == "acme"


def test_a_tenant_is_constant_for_the_jobs_life() -> None:
    """A container that is renamed, relabelled or forgotten by its runtime keeps its tenant, and so does its job."""
    node = Node(settings=tenants(TenantRule("acme", container_label=("team", "acme"))))
    node.containers[IDS[1]] = container(1, team="acme")
    node.start(100, cgroup=docker(1), cards=[0])
    before = only(node)
    node.containers[IDS[1]] = container(1, team="other")
    node.start(900, cards=[7])
    assert node.tick(2)[0].tenant == before.tenant == "acme"
    node.containers.clear()
    assert node.tick(2)[0].tenant == "acme"


def test_a_job_waits_for_its_containers_name() -> None:
    """While the runtime is being asked a job is not shown, so that its tenant need not change; for ten seconds."""
    node = Node(settings=tenants(TenantRule("acme", container_name=re.compile("acme"))), pending=frozenset({IDS[1]}))
    node.start(100, cgroup=docker(1), cards=[0])
    assert node.tick(2) == ()
    node.containers[IDS[1]], node.pending = container(1, "acme-1"), frozenset()
    assert node.tick()[0].tenant == "acme"
    late = Node(settings=node.settings, pending=frozenset({IDS[1]}))
    late.start(100, cgroup=docker(1), cards=[0])
    assert late.tick(6)[0].tenant == "unassigned"


def test_no_rule_about_containers_waits_for_none() -> None:
    """Where no rule asks the runtime nobody waits for it."""
    node = Node(settings=tenants(TenantRule("acme", unix_user="alice")), pending=frozenset({IDS[1]}))
    node.start(100, cgroup=docker(1), cards=[0])
    assert len(node.tick()) == 1


def test_a_user_id_inside_a_container_is_nobodys() -> None:
    """A process in a container may take any user id; it is not that user of the host."""
    node = Node(settings=tenants(TenantRule("acme", unix_user="alice")))
    node.start(100, cgroup=docker(1), cards=[0], uid=1000)
    job = only(node)
    assert (job.tenant, job.user) == ("unassigned", "")


def test_the_owner_of_a_rootless_container() -> None:
    """A rootless container belongs to the user under whose subtree it runs."""
    node = Node(settings=tenants(TenantRule("bobs", unix_user="bob")))
    node.start(100, cgroup=ROOTLESS.format(IDS[1]), cards=[0], uid=100_000)
    job = only(node)
    assert (job.kind, job.tenant, job.user) == (JobKind.CONTAINER, "bobs", "bob")


def test_a_group_named_after_another_container() -> None:
    """A user who names a group after somebody's container gets neither its tenant, nor its id, nor its name."""
    node = Node(settings=tenants(TenantRule("acme", container_label=("team", "acme"))))
    node.containers[IDS[1]] = container(1, team="acme")
    node.start(100, cgroup=docker(1), cards=[0])
    node.start(200, cgroup=ROOTLESS.format(IDS[1]), cards=[1])
    node.start(300, cgroup=f"0::/docker/{IDS[2]}/docker/{IDS[1]}\n", cards=[2])
    real, rootless, nested = by_card(node)
    assert (real.tenant, real.container) == ("acme", IDS[1][:12])
    assert (rootless.tenant, rootless.container) == ("unassigned", "")
    assert (nested.tenant, nested.container) == ("unassigned", IDS[2][:12])
    assert not rootless.gpu_job.startswith(f"container:{IDS[1][:12]}")
    assert not nested.gpu_job.startswith(f"container:{IDS[1][:12]}")


def test_a_nested_container_is_its_outer_ones_tenant() -> None:
    """What runs inside a tenant's container is the tenant's, with the inner container's id."""
    node = Node(settings=tenants(TenantRule("acme", container_label=("team", "acme"))))
    node.containers[IDS[1]] = container(1, team="acme")
    node.start(100, cgroup=f"0::/docker/{IDS[1]}/docker/{IDS[2]}\n", cards=[0])
    job = only(node)
    assert (job.tenant, job.container) == ("acme", IDS[2][:12])


def test_hostile_names_select_nothing() -> None:
    """A container named like a tenant, with newlines and quotes, is nobody's unless a rule says so."""
    node = Node(settings=tenants(TenantRule("acme", container_name=re.compile("^acme-[0-9]+$"))))
    for number, name in enumerate(("acme", "x\nacme-1", 'acme-1"', "acme-1\n\n", "a" * 100_000)):
        node.containers[IDS[number]] = container(number, name)
        node.start(100 + number, cgroup=docker(number), cards=[number])
    assert {job.tenant for job in node.settled()} == {"unassigned"}


def test_sessions_of_one_user() -> None:
    """The session's owner is the user, also where the process became root by sudo."""
    node = Node()
    node.start(100, cards=[0], uid=0, cgroup=SESSION)
    assert only(node).user == "alice"
