"""The simulated host behind the HostReader seam: processes, control groups, host load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gpumon.hardware.simulated.identity import BOOT_BEFORE_S, JobProcesses, Member
from gpumon.hardware.simulated.scenario import NodePlan, Standing
from gpumon.hardware.simulated.sensors import C
from gpumon.hardware.simulated.tree import pci_address
from gpumon.hardware.simulated.world import World
from gpumon.model.process import CgroupSample, Container, HostSample, Process, ProcessTable

# The rest of the host: services, kernel threads.
_BACKGROUND_CPUS = 0.6


class SimulatedHost:
    """Reads processes and host counters at the times it is asked for."""

    def __init__(
        self, world: World, jobs: tuple[JobProcesses, ...], now_s: Callable[[], float], origin_s: Callable[[], float]
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._now_s = now_s
        self._origin_s = origin_s
        self._node: NodePlan = world.scenario.node
        self._asked_s = 0.0  # meters are asked in order of time

    def processes(self, gpu_pids: frozenset[int], mono_s: float) -> ProcessTable:
        """Read the GPU processes and their relatives, and containers that hold cards without a process."""
        with self._world.lock:
            now = self._advance(mono_s - self._origin_s())
            processes: list[Process] = []
            cgroups: dict[str, CgroupSample] = {}
            containers: dict[str, Container] = {}
            for job in self._jobs:
                if not job.alive(now):
                    continue
                container = job.container
                if container is not None:
                    containers[container.container_id] = container
                pids = {member.pid for member in job.members}
                if not pids & gpu_pids and container is None:
                    continue
                processes += [self._process(job, member, now) for member in job.members]
                path = job.cgroup.strip().removeprefix("0::")
                cgroups[path] = self._cgroup(path, job, now)
            hidden = len(gpu_pids - {process.pid for process in processes})
        users = {0: "root", 1000: "ada", 1001: "grace", 1002: "linus"}
        return ProcessTable(mono_s, tuple(processes), cgroups, containers, hidden, users)

    def host(self, uuids_by_address: Mapping[str, str]) -> HostSample:
        """Read the host's cumulative counters."""
        with self._world.lock:
            now = self._advance(self._now_s())
            cpus = self._node.host.cpus
            busy = sum(self._cpu_seconds(job, now) for job in self._jobs) + _BACKGROUND_CPUS * now
            read = sum(run.disk_read.value_at(now) for run in self._world.jobs)
            written = sum(run.disk_write.value_at(now) for run in self._world.jobs)
            loopback = sum(run.loopback.value_at(now) for run in self._world.jobs)
            replays = self._replays(now)
        disk_s = (read + written) / self._node.host.disk_bytes_per_second
        total = self._node.host.memory_bytes
        return HostSample(
            cpu_busy_seconds=min(busy, cpus * now),
            cpu_iowait_seconds=0.5 * disk_s,
            cpu_total_seconds=cpus * now,
            memory_available_bytes=0.7 * total,
            memory_total_bytes=total,
            swap_in_bytes=0.0,
            swap_out_bytes=0.0,
            pressure_cpu_some_seconds=0.002 * now,
            pressure_io_some_seconds=0.5 * disk_s,
            pressure_memory_some_seconds=0.0,
            disk_read_bytes=read,
            disk_write_bytes=written,
            loopback_bytes=loopback + 2e3 * now,
            aer_errors={
                uuid: {"correctable": replays.get(address, 0.0), "nonfatal": 0.0, "fatal": 0.0}
                for address, uuid in uuids_by_address.items()
                if not self._node.flat
            },
        )

    def _advance(self, now: float) -> float:
        self._asked_s = max(self._asked_s, now)
        self._world.advance(self._asked_s)
        return self._asked_s

    def _replays(self, now: float) -> dict[str, float]:
        return {
            pci_address(self._node, index): math.floor(timeline.integrals_at(now)[C["pcie_replays"]])
            for index, timeline in enumerate(self._world.timelines)
        }

    def _cpu_seconds(self, job: JobProcesses, now: float) -> float:
        return sum(self._member_cpu_seconds(job, member, now) for member in job.members)

    def _member_cpu_seconds(self, job: JobProcesses, member: Member, now: float) -> float:
        lived = min(now, job.job.end_s) - max(job.plan.start_s, 0.0)
        if lived <= 0:
            return 0.0
        if member.role == "rank":
            if isinstance(job.plan.workload, Standing):
                return 0.01 * lived
            # The main thread launches kernels or spins in a CUDA wait: one core, whatever the card does.
            return lived + job.job.rank_cpu[member.rank].value_at(now)
        if member.role == "loader":
            loaders = sum(1 for other in job.members if other.role == "loader")
            return job.job.loader_cpu.value_at(now) / loaders
        return 0.004 * lived

    def _process(self, job: JobProcesses, member: Member, now: float) -> Process:
        run, plan = job.job, job.plan
        waits_s = run.disk_write.value_at(now) / self._node.host.disk_bytes_per_second
        writes = member.role == "rank" and member.rank == 0
        return Process(
            pid=member.pid,
            start_ticks=job.start_ticks(member),
            ppid=member.ppid,
            session=job.session,
            uid=plan.identity.user_id,
            state="S" if member.role in ("shell", "launcher") else "R",
            comm=member.comm,
            cmdline=member.cmdline,
            cgroup=job.cgroup,
            environ=member.environ,
            cpu_seconds=round(self._member_cpu_seconds(job, member, now), 2),
            threads=member.threads,
            gpu_minors=frozenset(job.given),
            shm_size_bytes=16e9,
            io_wait_seconds=round(0.5 * waits_s, 2) if writes else 0.0,
            cpus_allowed=self._node.host.cpus,
            loopback_bytes=run.loopback.value_at(now),
            net_namespace=4026530000 + job.first_pid,
            rss_bytes=4e9 if member.role == "rank" else 5e8,
            swap_bytes=0.0,
        )

    def _cgroup(self, path: str, job: JobProcesses, now: float) -> CgroupSample:
        run = job.job
        disk_s = (run.disk_read.value_at(now) + run.disk_write.value_at(now)) / self._node.host.disk_bytes_per_second
        return CgroupSample(
            path=path,
            cpu_seconds=self._cpu_seconds(job, now),
            throttled_seconds=0.0,
            throttled_periods=0.0,
            periods=10.0 * now,
            read_bytes=run.disk_read.value_at(now),
            write_bytes=run.disk_write.value_at(now),
            io_pressure_some_seconds=0.5 * disk_s,
        )


def boot_wall_s(wall_s: float, run_s: float) -> float:
    """Return Unix time of boot, the run having lasted `run_s` so far."""
    return wall_s - run_s - BOOT_BEFORE_S
