"""Cards that were given: containers before their first GPU process, and cards a job leaves idle."""

from __future__ import annotations

from gpumon.model.job import JobKind
from gpumon.model.process import Container
from gpumon.model.settings import TenantRule

from .node import IDS, Node, cards_of, docker, tenants


def test_a_container_with_cards_is_a_job() -> None:
    """A container that was given cards is a job without processes, and makes way for its first launch."""
    node = Node(settings=tenants(TenantRule("acme", container_label=("team", "acme"))))
    node.containers[IDS[1]] = Container(IDS[1], "", "docker", "", {"team": "acme"})
    node.start(10, "sleep inf", cgroup=docker(1), gpu_minors=frozenset({2, 3}))
    (held,) = node.settled()
    assert (held.kind, held.tenant, held.allocated, held.processes) == (JobKind.CONTAINER, "acme", 2, ())
    assert (cards_of(held), cards_of(held, used=True)) == ([2, 3], [])
    node.start(100, "python t.py", cgroup=docker(1), ppid=10, gpu_minors=frozenset({2, 3}), cards=[2])
    (job,) = node.tick(2)
    assert job.gpu_job != held.gpu_job
    assert (job.allocated, cards_of(job, used=True), cards_of(job, used=False)) == (2, [2], [3])
    node.end(100)
    (again,) = node.tick(2)
    assert again.gpu_job == held.gpu_job


def test_a_held_job_has_the_same_name_after_a_restart() -> None:
    """The name of a container that only holds cards is made of its id."""
    node = Node()
    node.start(10, "sleep inf", cgroup=docker(1), gpu_minors=frozenset({2}))
    (before,) = node.settled()
    node.restart()
    (after,) = node.settled()
    assert after.gpu_job == before.gpu_job


def test_idle_cards_of_a_container_with_two_jobs_are_neithers() -> None:
    """Of two jobs in one container nobody can say whose the idle cards are."""
    node = Node()
    minors = frozenset(range(4))
    node.start(100, "python a.py", cgroup=docker(1), gpu_minors=minors, cards=[0])
    node.start(200, "python b.py", cgroup=docker(1), gpu_minors=minors, cards=[1])
    first, second = node.settled()
    assert (cards_of(first), cards_of(second)) == ([0], [1])
    assert (first.allocated, second.allocated) == (4, 4)


def test_containers_that_were_all_given_everything() -> None:
    """Where every container has every card, who uses a card has it."""
    node = Node()
    everything = frozenset(range(8))
    node.start(100, "python a.py", cgroup=docker(1), gpu_minors=everything, cards=range(4))
    node.start(200, "python b.py", cgroup=docker(2), gpu_minors=everything, cards=range(4, 8))
    node.start(300, "sleep inf", cgroup=docker(3), gpu_minors=everything)
    first, second = node.settled()
    assert (cards_of(first), cards_of(second)) == ([0, 1, 2, 3], [4, 5, 6, 7])
    assert not any(card.shared for job in (first, second) for card in job.cards)


def test_cards_by_the_runtimes_word() -> None:
    """Where no device file is bound the runtime's request counts; one that cannot be resolved does not."""
    node = Node()
    node.containers[IDS[1]] = Container(IDS[1], "", "docker", "", {}, gpu_request="1,2")
    node.containers[IDS[2]] = Container(IDS[2], "", "docker", "", {}, gpu_minors=frozenset({5}))
    node.containers[IDS[3]] = Container(IDS[3], "", "docker", "", {}, gpu_request="77")
    node.containers[IDS[4]] = Container(IDS[4], "", "docker", "", {})
    found = {job.container: cards_of(job) for job in node.settled()}
    assert found == {IDS[1][:12]: [1, 2], IDS[2][:12]: [5]}


def test_without_any_word_the_allocation_is_unknown() -> None:
    """A job whose container nobody knows has an unknown allocation, not zero."""
    node = Node()
    node.start(100, cgroup=docker(1), cards=[0])
    (job,) = node.settled()
    assert job.allocated == -1


def test_sliced_cards_are_said() -> None:
    """A job whose container's NVML is hooked carries the library's name."""
    node = Node()
    node.start(100, cgroup=docker(1), cards=[0], slice_hook="hami")
    node.start(10, "sleep inf", cgroup=docker(2), gpu_minors=frozenset({5}), slice_hook="hami")
    assert [job.slice_hook for job in node.settled()] == ["hami", "hami"]
