"""One launch is one job, two launches are two, and the name stays."""

from __future__ import annotations

import re

import pytest

from gpumon.jobs.naming import is_valid
from gpumon.model.fault import Fault
from gpumon.model.job import JobKind
from gpumon.model.settings import TenantRule

from .node import IDS, SESSION, Node, cards_of, docker, tenants


def torchrun(node: Node, pid: int, cards: range, *, cgroup: str = SESSION, words: str = "") -> None:
    """An agent and a rank for each card, each with two loader workers."""
    node.start(pid, words or f"python /usr/bin/torchrun --nproc_per_node={len(cards)} train.py", cgroup=cgroup)
    for rank, index in enumerate(cards):
        own = pid + 10 * (rank + 1)
        node.start(own, "python -u train.py", cards=[index], cgroup=cgroup, ppid=pid)
        node.start(own + 1, "python -u train.py", cgroup=cgroup, ppid=own)
        node.start(own + 2, "python -u train.py", cgroup=cgroup, ppid=own)


def test_ranks_of_one_torchrun_are_one_job() -> None:
    """The ranks of an agent are one job on their cards; the agent and the loaders are its relatives."""
    node = Node()
    node.start(50, "bash", cgroup=SESSION)
    torchrun(node, 100, range(4))
    (job,) = node.settled()
    assert cards_of(job) == [0, 1, 2, 3]
    assert job.kind is JobKind.SESSION
    assert [pid for pid, _ in job.processes] == [110, 120, 130, 140]
    assert {pid for pid, _ in job.relatives} == {100, 111, 112, 121, 122, 131, 132, 141, 142}
    assert (job.layout.launcher, job.layout.world_size, job.layout.ranks_here) == ("torchrun", 4, 4)
    assert job.user == "alice"


def test_two_launches_in_one_container_are_two_jobs() -> None:
    """Two agents of one container are two jobs with different names, in the same container."""
    node = Node()
    node.start(10, "bash /start.sh", cgroup=docker(1))
    torchrun(node, 100, range(2), cgroup=docker(1))
    torchrun(node, 200, range(2, 4), cgroup=docker(1))
    first, second = node.settled()
    assert (cards_of(first), cards_of(second)) == ([0, 1], [2, 3])
    assert first.gpu_job != second.gpu_job
    assert first.container == second.container == IDS[1][:12]
    assert first.kind is JobKind.CONTAINER


def test_names_are_the_same_after_a_restart() -> None:
    """A new daemon gives every job the name the old one gave, in whatever order it sees them."""
    node = Node()
    node.start(10, "tini -- bash", cgroup=docker(1))
    torchrun(node, 100, range(2), cgroup=docker(1))
    torchrun(node, 200, range(2, 4), cgroup=docker(2))
    node.start(300, "python a.py", cards=[4])
    node.start(400, "/usr/bin/ollama serve", cgroup="0::/system.slice/ollama.service\n")
    node.start(401, "/usr/bin/ollama runner", cards=[5], cgroup="0::/system.slice/ollama.service\n", ppid=400)
    before = [job.gpu_job for job in node.settled()]
    node.processes = dict(reversed(node.processes.items()))
    node.restart()
    assert sorted(job.gpu_job for job in node.settled()) == sorted(before)
    assert len(before) == 4
    assert all(is_valid(name) for name in before)


def test_mpirun_through_shells() -> None:
    """Ranks below mpirun are one job although a shell stands between it and each rank."""
    node = Node()
    node.start(100, "mpirun -np 2 bash run.sh")
    for rank in range(2):
        node.start(110 + rank, "bash run.sh", ppid=100)
        node.start(120 + rank, "python train.py", cards=[rank], ppid=110 + rank)
    (job,) = node.settled()
    assert (cards_of(job), job.layout.launcher) == ([0, 1], "mpirun")


def test_two_scripts_of_one_shell_are_two_jobs() -> None:
    """A shell that starts two programs is no launcher."""
    node = Node()
    node.start(100, "bash both.sh")
    node.start(110, "python a.py", cards=[0], ppid=100)
    node.start(120, "python b.py", cards=[1], ppid=100)
    assert [cards_of(job) for job in node.settled()] == [[0], [1]]


def test_children_of_multiprocessing_are_one_job() -> None:
    """A script that spawns its ranks itself is one job, by fork or by spawn."""
    node = Node()
    node.start(100, "python train.py --lr 1")
    node.start(110, "python train.py --lr 1", cards=[0], ppid=100)
    code = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"
    node.start(120, ("python", "-c", code, "--multiprocessing-fork"), cards=[1], ppid=100)
    (job,) = node.settled()
    assert cards_of(job) == [0, 1]


def test_an_agent_that_starts_two_programs_is_no_launch() -> None:
    """A renter's own Python supervisor does not make one job of the two programs it starts."""
    node = Node()
    node.start(10, "python agent.py", cgroup=docker(1))
    node.start(110, "python a.py", cards=[0], cgroup=docker(1), ppid=10)
    node.start(120, "python b.py", cards=[1], cgroup=docker(1), ppid=10)
    assert [cards_of(job) for job in node.settled()] == [[0], [1]]


def test_vllm_workers_are_one_job() -> None:
    """vLLM's server, its engine and its renamed workers are one job with the server's layout."""
    node = Node()
    node.start(100, "python /usr/bin/vllm serve m --tensor-parallel-size 4", cgroup=docker(1))
    node.start(110, ("VLLM::EngineCore",), cgroup=docker(1), ppid=100)
    for rank in range(4):
        node.start(120 + rank, (f"VLLM::Worker_TP{rank}",), cards=[rank], cgroup=docker(1), ppid=110)
    (job,) = node.settled()
    assert cards_of(job) == [0, 1, 2, 3]
    assert (job.layout.framework, job.layout.asked, job.layout.tensor_parallel) == ("vllm", "tp", 4)


def test_data_parallel_is_one_job_on_many_cards() -> None:
    """One process on four cards is one job with four cards and one process."""
    node = Node()
    node.start(100, "python train.py", cards=range(4))
    (job,) = node.settled()
    assert (cards_of(job), len(job.processes), job.layout.asked) == ([0, 1, 2, 3], 1, "")


def test_notebooks_are_jobs_of_their_own() -> None:
    """Each kernel of a notebook server is a job; what a cell launches with torchrun is another."""
    node = Node()
    node.start(10, "python /opt/bin/jupyter-lab --ip 0.0.0.0", cgroup=docker(1))
    node.start(100, "python -m ipykernel_launcher -f /k1.json", cards=[0], cgroup=docker(1), ppid=10)
    node.start(200, "python -m ipykernel_launcher -f /k2.json", cards=[1], cgroup=docker(1), ppid=10)
    node.start(210, "bash -c torchrun", cgroup=docker(1), ppid=200)
    node.start(211, "torchrun --nproc-per-node 2 t.py", cgroup=docker(1), ppid=210)
    node.start(220, "python t.py", cards=[2], cgroup=docker(1), ppid=211)
    node.start(230, "python t.py", cards=[3], cgroup=docker(1), ppid=211)
    assert [cards_of(job) for job in node.settled()] == [[0], [1], [2, 3]]


def test_two_jobs_on_one_card_share_it() -> None:
    """A card with processes of two jobs is marked as shared in both, and each has its own part of the memory."""
    node = Node()
    node.start(100, "python a.py", cards=[0], memory_bytes=6.0, sm=0.5)
    node.start(200, "python b.py", cards=[0], memory_bytes=4.0, sm=0.2)
    first, second = node.settled()
    assert first.cards[0].shared
    assert second.cards[0].shared
    assert (first.cards[0].memory_bytes, second.cards[0].memory_bytes) == (6.0, 4.0)


def test_elastic_job_keeps_its_name_between_rounds() -> None:
    """Ranks that end and come back, also all of them at once, stay one job as long as their agent lives."""
    node = Node()
    torchrun(node, 100, range(4))
    (before,) = node.settled()
    node.end(120, 121, 122)
    (job,) = node.tick()
    assert (job.gpu_job, cards_of(job)) == (before.gpu_job, [0, 2, 3])
    node.end(110, 130, 140)
    (job,) = node.tick()
    assert (job.gpu_job, job.processes) == (before.gpu_job, ())
    node.start(500, "python -u train.py", cards=[1], ppid=100)
    (job,) = node.tick(2)
    assert (job.gpu_job, cards_of(job)) == (before.gpu_job, [1])
    node.end(100, 500)
    assert node.tick() == ()


def test_a_launcher_that_waits_too_long_is_no_job() -> None:
    """An agent without ranks for a minute holds no job open."""
    node = Node()
    torchrun(node, 100, range(1))
    node.settled()
    node.end(110, 111, 112)
    assert len(node.tick()) == 1
    assert node.tick(21) == ()


def test_ranks_keep_their_job_when_the_launcher_dies() -> None:
    """The name of a job does not change when its launcher dies and its ranks are handed to init."""
    node = Node()
    torchrun(node, 100, range(2))
    (before,) = node.settled()
    node.end(100)
    node.change(110, ppid=1)
    node.change(120, ppid=1)
    (job,) = node.tick(2)
    assert (job.gpu_job, cards_of(job)) == (before.gpu_job, [0, 1])


def env(rank: int, *, address: str = "127.0.0.1", port: int = 29500, world: int = 2, nodes: int = 0) -> dict[str, str]:
    values = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    return values | ({"NNODES": str(nodes)} if nodes else {})


def test_ranks_started_by_hand_meet() -> None:
    """Processes of one container with one port and different ranks are one job, whoever started them."""
    node = Node()
    node.start(100, "python a.py", cards=[0], cgroup=docker(1), environ=env(0))
    node.start(200, "python a.py", cards=[1], cgroup=docker(1), environ=env(1))
    (job,) = node.settled()
    assert (cards_of(job), job.layout.world_size) == ([0, 1], 2)
    node.end(200)
    node.tick()
    node.start(300, "python a.py", cards=[1], cgroup=docker(1), environ=env(1))
    (again,) = node.tick(2)
    assert (again.gpu_job, cards_of(again)) == (job.gpu_job, [0, 1])


def test_the_same_rank_twice_is_two_jobs() -> None:
    """Two programs that both claim rank 0 do not meet, whatever port they were told."""
    node = Node()
    node.start(100, "python a.py", cards=[0], cgroup=docker(1), environ=env(0))
    node.start(200, "python a.py", cards=[1], cgroup=docker(1), environ=env(0))
    assert len(node.settled()) == 2


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "172.17.0.2", "169.254.3.4", "127.8.8.8"]
)
def test_strangers_on_loopback_are_never_one(address: str) -> None:
    """Two containers with the same loopback rendezvous are neither one job nor one group, even of one tenant."""
    node = Node(settings=tenants(TenantRule("acme", cgroup=re.compile("docker"))))
    node.start(100, "python a.py", cards=[0], cgroup=docker(1), environ=env(0, address=address, nodes=2))
    node.start(200, "python a.py", cards=[1], cgroup=docker(2), environ=env(1, address=address, nodes=2))
    first, second = node.settled()
    assert first.gpu_job != second.gpu_job
    assert (first.layout.group, second.layout.group) == ("", "")


def test_containers_of_one_tenant_with_one_rendezvous_are_one_job() -> None:
    """Ranks in separate containers that meet at one address are one job when they are one tenant's."""
    node = Node(settings=tenants(TenantRule("acme", cgroup=re.compile("docker"))))
    for number in range(2):
        node.start(
            100 + number,
            "python a.py",
            cards=[number],
            cgroup=docker(number),
            environ=env(number, address="10.0.0.5", nodes=2),
        )
    (job,) = node.settled()
    assert (cards_of(job), job.tenant) == ([0, 1], "acme")
    assert job.layout.group.startswith("rdzv-")


def test_a_stranger_that_copies_an_address_stays_a_stranger() -> None:
    """Containers that no rule gives to one tenant are not joined by an address both name."""
    node = Node()
    node.start(100, "python a.py", cards=[0], cgroup=docker(1), environ=env(0, address="10.0.0.5"))
    node.start(200, "python a.py", cards=[1], cgroup=docker(2), environ=env(1, address="10.0.0.5"))
    assert len(node.settled()) == 2


def test_group_is_the_same_on_every_node() -> None:
    """Each node of one launch computes the same group from what its own ranks were told."""
    groups = set()
    for node_rank in range(2):
        node = Node(settings=tenants(TenantRule("acme", unix_user="alice")))
        words = f"torchrun --nnodes 2 --nproc-per-node 2 --node-rank {node_rank} --master-addr 10.1.1.1 t.py"
        torchrun(node, 100 + 1000 * node_rank, range(2), words=words)
        (job,) = node.settled()
        groups.add(job.layout.group)
    assert len(groups) == 1
    assert "" not in groups


def test_slurm_steps() -> None:
    """Tasks of one step are one job under Slurm's own daemon; another step is another job, both in the job's group."""
    node = Node()

    def group(step: int, place: str) -> str:
        return f"0::/system.slice/slurmstepd.scope/job_4242/step_{step}/{place}\n"

    for step in range(2):
        daemon = 1000 * (step + 1)
        node.start(daemon, "slurmstepd: [4242.0]", cgroup=group(step, "slurm"), uid=0, comm="slurmstepd")
        for task in range(2):
            node.start(
                daemon + 10 + task,
                "python train.py",
                cards=[2 * step + task],
                cgroup=group(step, f"user/task_{task}"),
                ppid=daemon,
            )
    first, second = node.settled()
    assert (cards_of(first), cards_of(second)) == ([0, 1], [2, 3])
    assert first.kind is JobKind.SLURM
    assert first.slurm_job_id == second.slurm_job_id == "4242"
    assert first.gpu_job.startswith("slurm:4242.0:")
    assert first.layout.group == second.layout.group == "slurm-4242"
    assert first.user == "alice"


def test_a_cpu_only_slurm_job_has_no_series() -> None:
    """A job without a card, and one with an empty device list, are no GPU jobs; the one with a card is complete."""
    node = Node()
    base = "0::/system.slice/slurmstepd.scope/job_{}/step_0/user/task_0\n"
    node.start(100, "python cpu.py", cgroup=base.format(1))
    node.start(200, "python gpu.py", cgroup=base.format(2), cards=[3])
    node.start(300, "python none.py", cgroup=base.format(3), environ={"CUDA_VISIBLE_DEVICES": ""})
    (job,) = node.settled()
    assert (job.slurm_job_id, cards_of(job)) == ("2", [3])


def test_a_lost_card_stays_with_its_job() -> None:
    """A job keeps a card that no longer answers while its process lives, and ends with the process."""
    node = Node()
    node.start(100, "python a.py", cards=[0, 1])
    (before,) = node.settled()
    node.lost = {1}
    (job,) = node.tick(3)
    assert (job.gpu_job, cards_of(job)) == (before.gpu_job, [0, 1])
    node.end(100)
    assert node.tick() == ()


def test_unreadable_command_line_still_makes_a_job() -> None:
    """Without a readable command line there is a job with an unknown layout."""
    node = Node()
    node.start(100, Fault.NO_PERMISSION, cards=[0], cgroup=docker(1))
    (job,) = node.settled()
    assert (job.layout.launcher, job.layout.framework, job.layout.privileges) == ("", "", frozenset())


def test_a_display_server_is_no_job() -> None:
    """The screen's own few megabytes are no job and share no card; a program that draws in a container is one."""
    node = Node()
    node.start(50, "Xorg :0", comm="Xorg")
    node.start(60, "Xorg :0", comm="Xorg", cgroup=docker(1))
    node.start(100, "python t.py", cards=[0])
    for pid, index in ((50, 0), (60, 1)):
        node.compute(pid, index, kind="graphics")
    found = sorted(node.settled(), key=cards_of)
    assert [cards_of(job) for job in found] == [[0], [1]]
    assert not found[0].cards[0].shared
