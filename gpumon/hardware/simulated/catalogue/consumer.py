"""GeForce nodes without NVLink and without peer access."""

from __future__ import annotations

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.catalogue.boards import (
    RTX3090_X4,
    RTX4090_X2,
    RTX4090_X4,
    RTX4090_X4_NARROW,
    RTX4090_X8,
    RTX4090_X8_OLD_DRIVER,
    RTX5090_X4,
    RTX5090_X8,
)
from gpumon.hardware.simulated.host_tasks import Checkpoint, Loader
from gpumon.hardware.simulated.scenario import Burn, Identity, JobPlan, NodePlan, Scenario, Standing, Workload, job_name
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training


def _one(name: str, about: str, node: NodePlan, workload: Workload, cards: int = 0) -> Scenario:
    """Return a scenario whose one job runs on the node's first cards (0: on all)."""
    return Scenario(name, about, node, (JobPlan(job_name(workload), workload, tuple(range(cards or len(node.slots)))),))


SCENARIOS: tuple[tuple[Scenario, str], ...] = (
    (
        _one(
            "rtx5090-x8-ddp-bound",
            "8 x RTX 5090, DDP of a 1.2 B model with a small batch: the gradients take longer than the arithmetic",
            RTX5090_X8,
            Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024, overlap=False),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx5090-x8-ddp-overlapped",
            "8 x RTX 5090, the same model with a large batch: heavy traffic, nearly all of it behind the arithmetic",
            RTX5090_X8,
            Training(work.MODEL_1B, "ddp", micro_batch=8, sequence=1024),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-compute",
            "8 x RTX 5090, DDP of a 125 M model with long sequences: links nearly quiet",
            RTX5090_X8,
            Training(work.GPT_125M, "ddp", micro_batch=32, sequence=2048, accumulation=4, intensity=0.92),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-tp-train",
            "8 x RTX 5090, Megatron tensor parallelism over PCIe: four all-reduces a layer",
            RTX5090_X8,
            Training(work.MODEL_3B, "tp", micro_batch=2, sequence=2048),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx5090-x8-fsdp",
            "8 x RTX 5090, FSDP of a 3 B model with a small batch: weights cross the links all the time",
            RTX5090_X8,
            Training(work.MODEL_3B, "fsdp", micro_batch=1, sequence=1024, accumulation=4),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx5090-x8-offload",
            "8 x RTX 5090, ZeRO-Offload of an 8 B model: gradients down, the CPU updates, weights up",
            RTX5090_X8,
            Training(work.MODEL_8B, "offload", micro_batch=2, sequence=2048),
        ),
        "host/offload",
    ),
    (
        _one(
            "rtx5090-x8-input",
            "8 x RTX 5090, image training whose loaders cannot keep up",
            RTX5090_X8,
            Training(
                work.RESNET50,
                "ddp",
                micro_batch=256,
                sequence=196,
                micro_seconds=0.18,
                loader=Loader(batch_seconds=2.4, workers=4, batch_bytes=28e6, card_bytes=77e6),
            ),
        ),
        "host/input",
    ),
    (
        _one(
            "rtx5090-x8-checkpoint",
            "8 x RTX 5090, rank 0 writes a checkpoint every few steps while the others wait at full utilization",
            RTX5090_X8,
            Training(
                work.MODEL_1B,
                "ddp",
                micro_batch=8,
                sequence=1024,
                checkpoint=Checkpoint(every_steps=8, size_bytes=17e9, bytes_per_second=1.4e9),
            ),
        ),
        "host/checkpoint",
    ),
    (
        _one(
            "rtx5090-x8-idle",
            "8 x RTX 5090 held by a notebook that runs nothing",
            RTX5090_X8,
            Standing(memory_bytes=6e9),
        ),
        "idle",
    ),
    (
        Scenario(
            "rtx5090-x8-one-card",
            "8 x RTX 5090 rented, a plain script trains on the first alone",
            RTX5090_X8,
            (
                JobPlan(
                    "bert-large",
                    Training(work.BERT_LARGE, "single", micro_batch=24, sequence=384),
                    (0,),
                    given_cards=tuple(range(8)),
                ),
            ),
        ),
        "compute",
    ),
    (
        Scenario(
            "rtx5090-x8-independent",
            "8 x RTX 5090, eight separate trainings of one card each in eight containers",
            RTX5090_X8,
            tuple(
                JobPlan(
                    f"sweep-{index}",
                    Training(
                        (work.GPT_125M, work.BERT_LARGE)[index % 2],
                        "single",
                        micro_batch=12 + 2 * index,
                        sequence=512,
                        intensity=0.8,
                        jitter=0.02,
                    ),
                    (index,),
                    identity=Identity(name=f"sweep-{index}"),
                )
                for index in range(8)
            ),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-pipeline",
            "8 x RTX 5090, pipeline parallelism with half as many micro-batches as stages: most of it is bubble",
            RTX5090_X8,
            Training(work.MODEL_8B, "pp", micro_batch=1, sequence=2048, accumulation=4),
        ),
        "communication/pipeline_bubble",
    ),
    (
        _one(
            "rtx5090-x8-pipeline-full",
            "8 x RTX 5090, pipeline parallelism with many micro-batches: small bubble, small traffic",
            RTX5090_X8,
            Training(work.MODEL_8B, "pp", micro_batch=1, sequence=2048, accumulation=48),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-zero2",
            "8 x RTX 5090, ZeRO-2 with accumulation: gradients are reduced in every micro-step",
            RTX5090_X8,
            Training(work.MODEL_3B, "zero2", micro_batch=1, sequence=512, accumulation=4),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx4090-x4-tp-prefill",
            "4 x RTX 4090 on x8 slots, vLLM with tensor parallelism on long prompts: the links are the limit",
            RTX4090_X4_NARROW,
            Serving(work.MODEL_8B, "tp", batch=8, prompt_tokens=6000, prompts_only=True),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "rtx5090-x4-tp-decode",
            "4 x RTX 5090, vLLM with tensor parallelism for one user: small all-reduces, quiet links",
            RTX5090_X4,
            Serving(work.MODEL_8B, "tp", batch=1, prompt_tokens=200, output_tokens=1500, weight_bytes=5e9),
        ),
        "communication/latency",
    ),
    (
        _one(
            "rtx5090-x4-layer-split",
            "4 x RTX 5090, llama.cpp with layers spread over the cards for one stream: one works, three stand still",
            RTX5090_X4,
            Serving(work.MODEL_70B, "layers", batch=1, prompt_tokens=300, output_tokens=600, weight_bytes=42e9),
        ),
        "communication/pipeline_bubble",
    ),
    (
        _one(
            "rtx5090-x4-expert-offload",
            "4 x RTX 5090, experts of a large model stay in host memory and are computed by the CPU",
            RTX5090_X4,
            Serving(
                work.MODEL_70B, "tp", batch=1, prompt_tokens=2000, output_tokens=300, weight_bytes=220e9, host_share=0.6
            ),
        ),
        "host/offload",
    ),
    (
        _one(
            "rtx5090-x4-decode-single",
            "one of 4 x RTX 5090 generates tokens: bound by its own memory, the other cards stay free",
            RTX5090_X4,
            Serving(work.MODEL_8B, "single", batch=8, prompt_tokens=100, output_tokens=1200),
            1,
        ),
        "memory",
    ),
    (
        _one(
            "rtx4090-x2-ddp-bound",
            "2 x RTX 4090 in a workstation, BERT-large in FP32 with a small batch",
            RTX4090_X2,
            Training(
                work.BERT_LARGE,
                "ddp",
                micro_batch=12,
                sequence=384,
                element_bytes=4.0,
                micro_seconds=0.075,
                overlap=False,
                intensity=0.75,
            ),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx4090-x2-ddp-overlapped",
            "2 x RTX 4090, BERT-large with a large batch and accumulation",
            RTX4090_X2,
            Training(work.BERT_LARGE, "ddp", micro_batch=24, sequence=384, accumulation=2),
        ),
        "compute",
    ),
    (
        _one(
            "rtx4090-x4-ddp-bound",
            "4 x RTX 4090 on x8 slots, DDP of a 1.2 B model",
            RTX4090_X4_NARROW,
            Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "rtx4090-x4-gloo",
            "4 x RTX 4090, DDP over gloo instead of NCCL: gradients go through the CPUs",
            RTX4090_X4,
            Training(work.GPT_125M, "gloo", micro_batch=8, sequence=512),
        ),
        "communication/host_path",
    ),
    (
        _one(
            "rtx4090-x4-dataparallel",
            "4 x RTX 4090, torch.nn.DataParallel: card 0 hands everything out and collects it",
            RTX4090_X4,
            Training(work.BERT_LARGE, "dataparallel", micro_batch=4, sequence=384),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "rtx4090-x4-device-map",
            "4 x RTX 4090, a model spread by device_map: one card works at a time",
            RTX4090_X4,
            Training(work.MODEL_3B, "device_map", micro_batch=4, sequence=1024, trained_parameters=3e7),
        ),
        "communication/pipeline_bubble",
    ),
    (
        _one(
            "rtx4090-x8-fsdp-accumulate",
            "8 x RTX 4090, FSDP with accumulation, which does not save it",
            RTX4090_X8,
            Training(work.MODEL_3B, "fsdp", micro_batch=1, sequence=1024, accumulation=8),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx4090-x8-launch",
            "8 x RTX 4090, many tiny kernels launched one by one by the CPU",
            RTX4090_X8,
            Training(
                work.GPT_125M,
                "ddp",
                micro_batch=1,
                sequence=256,
                micro_seconds=0.09,
                accumulation=8,
                kernel_share=0.38,
            ),
        ),
        "host/launch",
    ),
    (
        _one(
            "rtx4090-x4-small-products",
            "4 x RTX 4090 busy with matrix products too small to draw much power",
            RTX4090_X4,
            Burn("small", intensity=0.4),
        ),
        "compute",
    ),
    (
        _one(
            "rtx5090-x8-at-its-limit",
            "8 x RTX 5090 at their default limit: the power cap holds the clocks, as it should",
            RTX5090_X8,
            Burn("dense", intensity=1.12),
        ),
        "compute",
    ),
    (
        _one(
            "rtx3090-x4-windows-queue",
            "4 x RTX 3090 without byte counters, window calls one after the other, DDP over the board's memory",
            RTX3090_X4,
            Training(work.BERT_LARGE, "ddp", micro_batch=4, sequence=384, overlap=False, element_bytes=4.0),
        ),
        "communication/uplink",
    ),
    (
        _one(
            "rtx4090-x8-old-driver",
            "8 x RTX 4090 under driver 535, which has no byte counters: DDP on narrow links",
            RTX4090_X8_OLD_DRIVER,
            Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024),
        ),
        "communication/bandwidth",
    ),
    (
        _one(
            "rtx4090-x4-sockets",
            "4 x RTX 4090, NCCL_SHM_DISABLE=1: collectives go over loopback sockets",
            RTX4090_X4,
            Training(work.GPT_125M, "ddp", micro_batch=8, sequence=512, transport="sockets"),
        ),
        "communication/host_path",
    ),
)
