"""Nodes with NVLink or peer access, and professional cards."""

from __future__ import annotations

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.catalogue.boards import A100_PCIE_X8, A100_SXM_VM, A100_SXM_X8, H100_SXM_X8, L40S_X4
from gpumon.hardware.simulated.host_tasks import Checkpoint, Evaluation
from gpumon.hardware.simulated.scenario import Identity, JobPlan, NodePlan, Scenario, Workload, job_name
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training


def _one(name: str, about: str, node: NodePlan, workload: Workload) -> Scenario:
    identity = Identity(kind="slurm", user_id=1001)
    job = JobPlan(job_name(workload), workload, tuple(range(len(node.slots))), identity=identity)
    return Scenario(name, about, node, (job,))


SCENARIOS: tuple[tuple[Scenario, str], ...] = (
    (
        _one(
            "h100-sxm-x8-ddp",
            "8 x H100 SXM with NVLink, DDP of a 3.4 B model: steps of 0.47 s, two micro-steps each",
            H100_SXM_X8,
            Training(
                work.OPT_3B,
                "ddp",
                micro_batch=4,
                sequence=2048,
                accumulation=2,
                micro_seconds=0.196,
                gap_seconds=0.018,
                intensity=0.78,
            ),
        ),
        "compute",
    ),
    (
        _one(
            "h100-sxm-x8-checkpoint",
            "8 x H100 SXM, the same training saves every 12 steps by rank 0: seven cards wait at 100 % utilization",
            H100_SXM_X8,
            Training(
                work.OPT_3B,
                "ddp",
                micro_batch=4,
                sequence=2048,
                accumulation=2,
                micro_seconds=0.196,
                gap_seconds=0.018,
                intensity=0.78,
                checkpoint=Checkpoint(every_steps=12, size_bytes=40e9, bytes_per_second=2.6e9),
            ),
        ),
        "host/checkpoint",
    ),
    (
        _one(
            "h100-sxm-x8-tp-decode",
            "8 x H100 SXM, a 70 B model served with tensor parallelism to many users: bound by memory",
            H100_SXM_X8,
            Serving(work.MODEL_70B, "tp", batch=128, prompt_tokens=60, output_tokens=900, context_tokens=9000),
        ),
        "memory",
    ),
    (
        _one(
            "a100-sxm-x8-fsdp",
            "8 x A100 SXM with NVLink, FSDP of a 13 B model",
            A100_SXM_X8,
            Training(work.MODEL_13B, "fsdp", micro_batch=4, sequence=2048),
        ),
        "compute",
    ),
    (
        _one(
            "a100-sxm-x8-no-nvlink",
            "8 x A100 SXM in a virtual machine that keeps NCCL off NVLink: 5 GB/s instead of 200",
            A100_SXM_VM,
            Training(work.MODEL_1B, "ddp", micro_batch=8, sequence=1024),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "a100-pcie-x8-ddp",
            "8 x A100 PCIe with peer access, BERT-large: 88 % efficiency as published",
            A100_PCIE_X8,
            Training(work.BERT_LARGE, "ddp", micro_batch=32, sequence=384, micro_seconds=0.348, overlap=False),
        ),
        "compute",
    ),
    (
        _one(
            "a100-pcie-x8-zero3-bound",
            "8 x A100 PCIe, ZeRO-3 of a 13 B model with a tiny batch",
            A100_PCIE_X8,
            Training(work.MODEL_13B, "zero3", micro_batch=1, sequence=512, accumulation=4),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "l40s-x4-evaluation",
            "4 x L40S, training with an evaluation phase every few steps",
            L40S_X4,
            Training(
                work.MODEL_1B,
                "ddp",
                micro_batch=16,
                sequence=1024,
                evaluation=Evaluation(every_steps=12, seconds=8.0),
            ),
        ),
        "compute",
    ),
    (
        _one(
            "l40s-x4-serving-lulls",
            "4 x L40S, a chat server whose traffic comes in waves",
            L40S_X4,
            Serving(
                work.MODEL_8B,
                "tp",
                batch=24,
                prompt_tokens=200,
                output_tokens=400,
                context_tokens=6000,
                busy_seconds=60,
                lull_seconds=20,
            ),
        ),
        "memory",
    ),
    (
        _one(
            "h100-sxm-x8-p2p-disabled",
            "8 x H100 SXM with NCCL_P2P_DISABLE=1 left in the environment: NVLink stays quiet",
            H100_SXM_X8,
            Training(work.OPT_3B, "ddp", micro_batch=2, sequence=1024, transport="staging"),
        ),
        "communication/uplink",
    ),
)
