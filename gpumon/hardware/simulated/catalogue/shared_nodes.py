"""Nodes with several tenants, mixed cards, switches, virtual machines."""

from __future__ import annotations

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.cards import CARDS
from gpumon.hardware.simulated.catalogue.boards import HOST_4090, HOST_5090
from gpumon.hardware.simulated.fabric import HostSpec, Slot
from gpumon.hardware.simulated.scenario import Identity, JobPlan, NodePlan, Scenario, Standing, slots
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training

_BERT = Training(work.BERT_LARGE, "ddp", micro_batch=16, sequence=384)
# Gen4 x16 uplinks above several cards.
_SWITCHED = HostSpec(staging_bytes_per_second=13e9, io_memory_bytes_per_second=200e9, switch_generation=4)
_ONE_SWITCH = HostSpec(sockets=1, staging_bytes_per_second=35e9, switch_generation=4)

SCENARIOS: tuple[tuple[Scenario, str], ...] = (
    (
        Scenario(
            "mixed-node",
            "2 x RTX 4090, an RTX 5090 and an A6000 in one host, three tenants",
            NodePlan(
                (
                    Slot(CARDS["rtx4090"], 0),
                    Slot(CARDS["rtx4090"], 0),
                    Slot(CARDS["rtx5090"], 1),
                    Slot(CARDS["a6000"], 1),
                ),
                HOST_4090,
            ),
            (
                JobPlan(
                    "llama-1b-ddp",
                    Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024, overlap=False),
                    (0, 1),
                    identity=Identity(name="tenant-a", labels={"tenant": "a"}),
                ),
                JobPlan(
                    "bert-large",
                    Training(work.BERT_LARGE, "single", micro_batch=32, sequence=384),
                    (2,),
                    identity=Identity(name="tenant-b", labels={"tenant": "b"}),
                ),
                JobPlan(
                    "notebook",
                    Standing(memory_bytes=3e9),
                    (3,),
                    identity=Identity(name="tenant-c", labels={"tenant": "c"}),
                ),
            ),
        ),
        "communication/uplink",
    ),
    (
        Scenario(
            "rtx4090-x4-vm",
            "4 x RTX 4090 passed through to a virtual machine: a flat PCI tree, nothing known above the cards",
            NodePlan(slots("rtx4090", 4), HOST_4090, virtualization="kvm", acs_enabled=None, iommu=""),
            (
                JobPlan(
                    "llama-1b-ddp",
                    Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024),
                    (0, 1, 2, 3),
                    identity=Identity(kind="session"),
                ),
            ),
        ),
        "communication/uplink",
    ),
    (
        Scenario(
            "rtx4090-x8-two-tenants-one-uplink",
            "8 x RTX 4090, four cards to a switch: the trainings of two tenants meet on its uplink",
            NodePlan(slots("rtx4090", 8, per_switch=4), _SWITCHED),
            (
                JobPlan(
                    "tenant-a",
                    Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024),
                    (0, 1),
                    identity=Identity(name="tenant-a", labels={"tenant": "a"}),
                ),
                JobPlan(
                    "tenant-b",
                    Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024),
                    (2, 3),
                    identity=Identity(name="tenant-b", labels={"tenant": "b"}),
                ),
            ),
        ),
        "communication/uplink",
    ),
    (
        Scenario(
            "rtx5090-x2-one-switch",
            "2 x RTX 5090 under one gen4 switch: both cards share its uplink",
            NodePlan(
                slots("rtx5090", 2, per_switch=2, sockets=1),
                _ONE_SWITCH,
            ),
            (JobPlan("llama-1b-ddp", Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024), (0, 1)),),
        ),
        "communication/uplink",
    ),
    (
        Scenario(
            "rtx5090-x8-mixed-jobs",
            "8 x RTX 5090: a training on four cards, a server on two, a notebook, and a container without processes",
            NodePlan(slots("rtx5090", 8), HOST_5090),
            (
                JobPlan(
                    "train-4",
                    Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024, overlap=False),
                    (0, 1, 2, 3),
                    identity=Identity(name="train-4", labels={"tenant": "acme"}),
                ),
                JobPlan(
                    "serve-2",
                    Serving(work.MODEL_8B, "tp", batch=32, prompt_tokens=200, output_tokens=500, context_tokens=4000),
                    (4, 5),
                    identity=Identity(kind="unit", name="vllm", user_id=1002),
                ),
                JobPlan("notebook", Standing(memory_bytes=2e9), (6,), identity=Identity(kind="session")),
                JobPlan("empty", Standing(contexts=False), (7,), identity=Identity(name="empty")),
            ),
        ),
        "communication/uplink",
    ),
    (
        Scenario(
            "rtx5090-x4-resume",
            "4 x RTX 5090, a training ends after 60 s and is resumed on two cards half a minute later",
            NodePlan(slots("rtx5090", 4), HOST_5090),
            (
                JobPlan("first", _BERT, (0, 1, 2, 3), end_s=60),
                JobPlan("resumed", _BERT, (0, 1), start_s=90),
            ),
        ),
        "compute",
    ),
)
