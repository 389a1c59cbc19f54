"""Cards that work for somebody nobody can name: said, after a while, and never guessed."""

from __future__ import annotations

import math

from gpumon.model.fault import Fault
from gpumon.model.job import JobKind

from .node import GIB, IDS, Node, cards_of


def test_hidden_processes_are_one_job_of_nobody() -> None:
    """Pids that procfs does not show are nobody's once two readings of procfs agree, and not before."""
    node = Node()
    node.start(100, cards=[0])
    node.compute(555, 1)
    node.compute(556, 2)
    first = node.tick()
    assert [cards_of(job) for job in first] == [[0]]
    known, hidden = node.tick(2)
    assert cards_of(known) == [0]
    assert (hidden.kind, hidden.gpu_job, hidden.tenant) == (JobKind.UNATTRIBUTED, "unattributed:node", "unassigned")
    assert (cards_of(hidden), hidden.processes) == ([1, 2], ())
    node.leave(555)
    node.leave(556)
    assert len(node.tick()) == 1


def test_a_process_that_ended_between_two_lists_makes_no_job() -> None:
    """A pid that the driver listed once and procfs never showed leaves no trace."""
    node = Node()
    node.compute(555, 1)
    assert node.tick() == ()
    node.leave(555)
    assert node.tick(3) == ()


def test_a_hidden_process_beside_a_known_one_shares_its_card() -> None:
    """A card with a known job and a hidden process is shared: its power is not the job's alone."""
    node = Node()
    node.start(100, cards=[0])
    node.compute(555, 0)
    known, hidden = node.tick(3)
    assert known.cards[0].shared
    assert cards_of(hidden) == [0]


def test_contradicting_control_groups_are_nobodys() -> None:
    """A process whose control group file names two containers is attributed to neither."""
    node = Node()
    node.start(100, cards=[0], cgroup=f"2:cpu:/docker/{IDS[1]}\n1:pids:/docker/{IDS[2]}\n")
    (job,) = node.settled()
    assert (job.kind, job.container, job.cards[0].memory_bytes) == (JobKind.UNATTRIBUTED, "", GIB)


def test_a_runtimes_own_process_is_nobodys_job() -> None:
    """A process in a runtime's own service is neither a container nor a job of its own."""
    node = Node()
    node.start(100, cards=[0], cgroup="0::/system.slice/docker.service\n")
    node.start(200, cards=[1], cgroup=Fault.NO_PERMISSION)
    (job,) = node.settled()
    assert (job.kind, cards_of(job)) == (JobKind.UNATTRIBUTED, [0, 1])


def test_a_card_busy_without_a_process() -> None:
    """A card that works for ten seconds while the driver lists nobody is nobody's; a shorter burst is nothing."""
    node = Node()
    node.busy = {3}
    assert node.tick(3) == ()
    (job,) = node.tick(2)
    assert (job.kind, cards_of(job)) == (JobKind.UNATTRIBUTED, [3])
    assert math.isnan(job.cards[0].memory_bytes)
    node.busy = set()
    assert node.tick() == ()


def test_own_processes_in_a_container() -> None:
    """Inside a container a process is on the busy ones of the cards it holds; busy cards of nobody are nobody's."""
    node = Node(foreign=True)
    node.start(20, "torchrun --nproc-per-node 2 t.py", cgroup="0::/\n")
    node.start(21, "python t.py", cgroup="0::/\n", ppid=20, gpu_minors=frozenset(range(8)))
    node.start(22, "python t.py", cgroup="0::/\n", ppid=20, gpu_minors=frozenset(range(8)))
    node.start(1, "sh", cgroup="0::/\n", start_ticks=1)
    node.compute(90001, 0)
    node.compute(90002, 1)
    (job,) = node.settled()
    assert (job.kind, cards_of(job), job.layout.launcher) == (JobKind.SESSION, [0, 1], "torchrun")
    other = Node(foreign=True)
    other.start(21, "python t.py", cgroup="0::/\n", gpu_minors=frozenset({0}))
    other.compute(90001, 0)
    other.compute(90002, 5)
    first, second = other.settled()
    assert (cards_of(first), cards_of(second), second.kind) == ([0], [5], JobKind.UNATTRIBUTED)
