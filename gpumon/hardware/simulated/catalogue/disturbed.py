"""Nodes on which one card, one link or one process holds the others back, or everything stands still."""

from __future__ import annotations

from dataclasses import replace

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.catalogue.boards import RTX4090_X4, RTX4090_X8, RTX5090_X4, RTX5090_X8
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.scenario import Burn, FaultPlan, JobPlan, NodePlan, Scenario, Workload, XidPlan, job_name
from gpumon.hardware.simulated.training import Training

_STEADY = Training(work.MODEL_1B, "ddp", micro_batch=8, sequence=1024, intensity=0.9)


def _one(name: str, about: str, node: NodePlan, workload: Workload = _STEADY) -> Scenario:
    return Scenario(name, about, node, (JobPlan(job_name(workload), workload, tuple(range(len(node.slots)))),))


def _with(node: NodePlan, **conditions: Conditions) -> NodePlan:
    """Return the node with the conditions of some cards set; keywords are "cardN"."""
    return replace(node, conditions={int(name.removeprefix("card")): value for name, value in conditions.items()})


def _narrow(node: NodePlan, card: int, lanes: int) -> NodePlan:
    changed = tuple(replace(slot, lanes=lanes) if at == card else slot for at, slot in enumerate(node.slots))
    return replace(node, slots=changed)


_ALL_LIMITED = {f"card{index}": Conditions(power_limit_watts=400) for index in range(8)}

SCENARIOS: tuple[tuple[Scenario, str], ...] = (
    (
        _one(
            "rtx5090-x8-straggler-power",
            "8 x RTX 5090, somebody set card 5 to 400 W: seven wait for it",
            _with(RTX5090_X8, card5=Conditions(power_limit_watts=400)),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-straggler-heat",
            "8 x RTX 5090, the fans of card 3 have failed: hot, slow, waited for",
            _with(RTX5090_X8, card3=Conditions(ambient_celsius=44, celsius_per_watt=0.165, heat_seconds=12)),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-straggler-host",
            "8 x RTX 5090, the process of card 2 loses a second on the host in every step",
            RTX5090_X8,
            replace(_STEADY, slow_rank=2, slow_seconds=1.2),
        ),
        "host/input",
    ),
    (
        _one(
            "rtx4090-x8-straggler-link",
            "8 x RTX 4090, card 6 has trained to x4: the whole ring goes at its pace",
            _narrow(RTX4090_X8, 6, 4),
            Training(work.MODEL_1B, "ddp", micro_batch=3, sequence=1024),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "rtx5090-x8-power-limited",
            "8 x RTX 5090 all set to 400 W of 575 W",
            _with(RTX5090_X8, **_ALL_LIMITED),
            Burn("dense"),
        ),
        "throttled/power",
    ),
    (
        _one(
            "rtx4090-x4-heat",
            "4 x RTX 4090 in a case without air: every card at its temperature limit",
            _with(
                RTX4090_X4,
                **{
                    f"card{index}": Conditions(ambient_celsius=50, celsius_per_watt=0.13, heat_seconds=20)
                    for index in range(4)
                },
            ),
            Burn("dense"),
        ),
        "throttled/thermal",
    ),
    (
        _one(
            "rtx4090-x4-brake",
            "4 x RTX 4090, the power supply pulls the brake after 20 s",
            _with(RTX4090_X4, **{f"card{index}": Conditions(brake_from_s=20.0) for index in range(4)}),
            Burn("dense"),
        ),
        "throttled/brake",
    ),
    (
        _one(
            "rtx4090-x4-hung",
            "4 x RTX 4090, a collective hangs after 40 s: 100 % utilization, quiet links, for ever",
            RTX4090_X4,
            Training(work.BERT_LARGE, "ddp", micro_batch=8, sequence=384, hangs_at_s=40.0),
        ),
        "hung",
    ),
    (
        Scenario(
            "rtx5090-x4-card-lost",
            "4 x RTX 5090, card 2 falls off the bus after 45 s (Xid 79)",
            RTX5090_X4,
            (JobPlan("bert-large-ddp", Training(work.BERT_LARGE, "ddp", micro_batch=16, sequence=384), (0, 1, 2, 3)),),
            faults=(FaultPlan(2, "lost", 45.0),),
            xids=(XidPlan(2, 79, 45.0),),
        ),
        "compute",
    ),
    (
        Scenario(
            "rtx5090-x4-driver-restart",
            "4 x RTX 5090, the driver goes away after 30 s and comes back 20 s later",
            RTX5090_X4,
            (JobPlan("bert-large-ddp", Training(work.BERT_LARGE, "ddp", micro_batch=16, sequence=384), (0, 1, 2, 3)),),
            faults=(FaultPlan(-1, "driver_not_loaded", 30.0, 50.0),),
        ),
        "compute",
    ),
    (
        _one(
            "rtx4090-x4-filler",
            "4 x RTX 4090 kept busy by a filler kernel at half their power",
            RTX4090_X4,
            Burn("filler"),
        ),
        "compute",
    ),
    (
        _one(
            "rtx4090-x4-bad-riser",
            "4 x RTX 4090, card 1 on a riser that trains to gen 1 and replays packets",
            _with(
                replace(
                    RTX4090_X4,
                    slots=tuple(
                        replace(slot, generation=1) if at == 1 else slot for at, slot in enumerate(RTX4090_X4.slots)
                    ),
                ),
                card1=Conditions(replays_per_second=3.0),
            ),
            Training(work.MODEL_1B, "ddp", micro_batch=3, sequence=1024),
        ),
        "communication/bandwidth",
    ),
    (
        Scenario(
            "rtx5090-x4-two-jobs-one-card",
            "4 x RTX 5090, a second job was started on card 3 of a training over all four",
            RTX5090_X4,
            (
                JobPlan("main", _STEADY, (0, 1, 2, 3)),
                JobPlan("second", Training(work.BERT_LARGE, "single", micro_batch=16, sequence=384), (3,)),
            ),
        ),
        "compute",
    ),
)
