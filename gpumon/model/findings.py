"""The closed catalogue of findings: what can be wrong with a job or a node beside its class, who hears it, and the words.

One row a finding. The detectors emit only these names; the metrics, the page, the alert rules and the runbook take
name, severity, audience and texts from here. A name is frozen once released.

The audience decides the subject: what a customer hears is about one job, what the operator hears is about the node.
Texts are for somebody who has never read a metric: a term of the trade stands beside its meaning. A title says what
is so, the advice what to change first, the check how to see that it helped. Chinese is in `findings_zh.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.model.findings_zh import CHINESE
from gpumon.model.verdict import Finding

CRITICAL, WARNING, INFO = "critical", "warning", "info"
CUSTOMER, OPERATOR = "customer", "operator"


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One row of the catalogue."""

    finding: str  # the label value: [a-z0-9_]+
    severity: str  # info: worth knowing; warning: costs speed or money; critical: the job does not get on
    audience: str
    title: str
    advice: str
    check: str
    explains: str = ""  # the class of the job that this finding is the reason for; its alert mutes that of the class

    @property
    def chinese(self) -> tuple[str, str, str]:
        """Title, advice and check in Chinese."""
        return CHINESE[self.finding]

    def found(self, evidence: tuple[str, ...], gain: tuple[float, float] | None = None) -> Finding:
        """Return the finding as it holds now.

        Args:
            evidence: sentences with numbers, strongest first.
            gain: expected speed-up as a range, 1.2 for 20 % faster; None where it cannot be stated.
        """
        title_zh, advice_zh, _ = self.chinese
        return Finding(
            finding=self.finding,
            severity=self.severity,
            audience=self.audience,
            title=self.title,
            evidence=evidence,
            advice=self.advice,
            title_zh=title_zh,
            advice_zh=advice_zh,
            gain=gain,
        )


CATALOGUE: tuple[FindingKind, ...] = (
    # --- how the cards talk to each other
    FindingKind(
        "nccl_p2p_disabled",
        WARNING,
        CUSTOMER,
        "Direct transfers between the cards are switched off (NCCL_P2P_DISABLE)",
        "Remove NCCL_P2P_DISABLE from the job's environment: these cards can write into each other's memory, and with the variable set every byte makes a detour through host memory.",
        "After the restart the steps are shorter and, on machines with NVLink, NVLink traffic is no longer zero.",
        explains="communication",
    ),
    FindingKind(
        "nccl_shm_disabled",
        WARNING,
        CUSTOMER,
        "Transfers through shared memory are switched off (NCCL_SHM_DISABLE)",
        "Remove NCCL_SHM_DISABLE: without shared memory the cards of one machine exchange data over a network socket. If it was set because /dev/shm was too small, enlarge /dev/shm instead.",
        "The traffic of the job's loopback network device falls to nearly nothing and the steps are shorter.",
        explains="communication",
    ),
    FindingKind(
        "shm_small",
        WARNING,
        CUSTOMER,
        "/dev/shm, the memory that processes share, is small",
        "Start the container with --shm-size=16g (or --ipc=host). Docker gives 64 MB, which data loaders and NCCL, the library that moves data between cards, outgrow: the job then slows down or dies with a bus error.",
        "`df -h /dev/shm` inside the container shows the new size.",
    ),
    FindingKind(
        "shm_separate",
        WARNING,
        CUSTOMER,
        "The processes of one job do not share /dev/shm",
        "Run all processes of the job in one container, or give their containers a common IPC namespace (--ipc=container:NAME or --ipc=host): otherwise the cards exchange data over a network socket.",
        "The traffic of the loopback network device falls to nearly nothing and the steps are shorter.",
        explains="communication",
    ),
    FindingKind(
        "gloo_backend",
        WARNING,
        CUSTOMER,
        "The cards exchange data through the CPU (backend gloo instead of nccl)",
        'Use init_process_group("nccl"): gloo copies every gradient to the CPU, adds it there and copies it back.',
        "The job's CPU use falls and the steps are several times shorter.",
        explains="communication",
    ),
    FindingKind(
        "nvlink_unused",
        WARNING,
        OPERATOR,
        "A job on several cards uses PCIe although the cards have NVLink",
        "Check peer access inside the virtual machine (`gpumon topo`): without it the links between the cards stay dark and the job runs at a fraction of its speed. On NVSwitch machines the fabric manager must run.",
        "NVLink traffic appears while the job runs.",
    ),
    FindingKind(
        "acs_redirects",
        WARNING,
        OPERATOR,
        "PCIe access control (ACS) or the IOMMU sends card-to-card traffic through the CPU",
        "For containers: boot with iommu=pt and switch ACS redirection off on the bridges above the cards. Leave both on where cards are passed to virtual machines: they keep tenants apart.",
        "`gpumon doctor` no longer names the bridge, and transfers between the cards no longer hang or crawl.",
    ),
    FindingKind(
        "hung_collective",
        CRITICAL,
        CUSTOMER,
        "A transfer between the cards has been stuck since the start: full utilization, no traffic",
        "Stop the job and start it once with NCCL_P2P_DISABLE=1 and NCCL_DEBUG=INFO. If it then runs, direct access between the cards is broken on this machine: tell the operator. If not, one process is missing or waits elsewhere: compare what each rank prints last.",
        "The step counter moves.",
        explains="hung",
    ),
    FindingKind(
        "vllm_custom_allreduce_off",
        INFO,
        CUSTOMER,
        "vLLM cannot use its own fast exchange on more than two cards over PCIe",
        "Give each server two cards and start more servers, instead of one server over all cards.",
        "All servers together answer more requests per second.",
        explains="communication",
    ),
    # --- how the work is cut up
    FindingKind(
        "tp_over_pcie",
        WARNING,
        CUSTOMER,
        "Tensor parallelism over PCIe: the cards exchange data several times in every layer of the model",
        "If the model fits on one card, run one copy on each card. If it does not, use pipeline parallelism (each card holds some layers) or a smaller quantisation. Tensor parallelism without NVLink pays only for the latency of a single user.",
        "Requests or samples per second of all cards together go up; traffic on the links falls.",
        explains="communication",
    ),
    FindingKind(
        "tp_uneven",
        WARNING,
        CUSTOMER,
        "The tensor-parallel size leaves cards without work",
        "Use 1, 2, 4 or 8: the size must divide the model's attention heads. Rent as many cards as the job uses.",
        "No card of the job stays idle.",
    ),
    FindingKind(
        "needless_sharding",
        WARNING,
        CUSTOMER,
        "The model is cut over all cards (FSDP or ZeRO-3) although it fits on each",
        "Use ZeRO-1, ZeRO-2 or plain data parallelism (DDP): cutting up the weights makes every card fetch them again in every step.",
        "Traffic on the links falls by a third or more and the steps are shorter; card memory in use goes up.",
        explains="communication",
    ),
    FindingKind(
        "no_accumulation",
        WARNING,
        CUSTOMER,
        "Gradients are exchanged after every small batch, and the links are too slow for that",
        "Accumulate gradients over 4 to 16 small batches before each exchange (gradient_accumulation_steps), and lower the learning-rate schedule's step count accordingly.",
        "Fewer exchanges in the same time, and more samples per second.",
        explains="communication",
    ),
    FindingKind(
        "accumulation_syncs",
        WARNING,
        CUSTOMER,
        "Gradients are accumulated, but still exchanged after every small batch",
        "Wrap all but the last small batch in model.no_sync() (accelerate: accelerator.accumulate(model)). ZeRO-2 and FSDP exchange every time by design: use ZeRO-1 or DDP where memory allows.",
        "The traffic of one step falls by the number of accumulated batches.",
        explains="communication",
    ),
    FindingKind(
        "batch_small",
        INFO,
        CUSTOMER,
        "The batch is small for these cards: much memory is free and little power is drawn",
        "Raise the batch per card until most of the memory is used; adapt the learning rate.",
        "Power draw and samples per second go up.",
    ),
    FindingKind(
        "data_parallel",
        WARNING,
        CUSTOMER,
        "One process drives all cards (torch.nn.DataParallel)",
        "Use DistributedDataParallel, started with `torchrun --nproc_per_node=CARDS`: DataParallel sends the whole model from the first card to all others in every step.",
        "Every card has its own process and all are equally busy.",
        explains="communication",
    ),
    FindingKind(
        "device_map_training",
        WARNING,
        CUSTOMER,
        'The model is spread over the cards by device_map="auto": they work one after another',
        "To train, load the model in 4 bit on each card and use DDP; to serve, use vLLM or SGLang. device_map is meant to make a model fit, not to make it fast.",
        "All cards are busy at the same time.",
        explains="communication",
    ),
    FindingKind(
        "layer_split_one_stream",
        INFO,
        CUSTOMER,
        "Layers are split over the cards for one stream of tokens: only one card works at a time",
        "Use as few cards as the model needs, or serve several requests at once. More cards do not speed up a single stream when layers are split (llama.cpp -sm layer).",
        "Tokens per second stay the same on fewer cards, or rise with several requests.",
        explains="communication",
    ),
    FindingKind(
        "replicas_instead",
        WARNING,
        CUSTOMER,
        "The model fits on one card, and the cards spend their time waiting for each other",
        "Run one independent copy on each card and share out the requests or experiments.",
        "The cards no longer exchange data and their sum of work goes up.",
        explains="communication",
    ),
    FindingKind(
        "needless_offload",
        WARNING,
        CUSTOMER,
        "Optimizer or weights are kept in host memory although the cards have room",
        "Switch CPU offload off (DeepSpeed: offload_optimizer and offload_param). If memory is short, try an 8-bit optimizer or LoRA, which trains a small addition to the model, first.",
        "The bursts to and from host memory disappear and the steps are shorter.",
        explains="host",
    ),
    FindingKind(
        "asked_not_seen",
        WARNING,
        CUSTOMER,
        "The job was started as one computation over all cards, but each card is seen to work alone",
        "Check that the program joins its processes (init_process_group, then DistributedDataParallel or FSDP around the model, or accelerator.prepare): without it each process trains a copy of its own and the extra cards bring nothing.",
        "The cards exchange data, and one run ends in fewer steps.",
    ),
    # --- which cards are used
    FindingKind(
        "one_card_used",
        WARNING,
        CUSTOMER,
        "The job uses one card of several it has",
        "Start it with `torchrun --nproc_per_node=CARDS` or `accelerate launch --num_processes CARDS`; a plain `python` uses one card. Or rent one card.",
        "Each card has a process and is busy.",
    ),
    FindingKind(
        "visible_devices_narrow",
        WARNING,
        CUSTOMER,
        "CUDA_VISIBLE_DEVICES hides some of the rented cards from the job",
        "Widen or remove CUDA_VISIBLE_DEVICES, or rent fewer cards.",
        "The job has processes on every card.",
    ),
    FindingKind(
        "cards_idle",
        WARNING,
        CUSTOMER,
        "Some of the job's cards hold memory and do nothing",
        "Release the cards that are not needed, or give them work: check the number of processes and the devices each one uses.",
        "No card of the job stays idle, or the job holds fewer.",
    ),
    FindingKind(
        "mixed_cards",
        INFO,
        CUSTOMER,
        "The job runs on cards of different speed: all go at the pace of the slowest",
        "Use cards of one model, or give the slower card a smaller share of the batch.",
        "No card waits for another.",
    ),
    FindingKind(
        "two_jobs_one_card",
        WARNING,
        CUSTOMER,
        "Two of your jobs run on the same card and slow each other down",
        "Move one of them to a free card (CUDA_VISIBLE_DEVICES), or stop the one that was forgotten.",
        "Each card has one job.",
    ),
    FindingKind(
        "two_tenants_one_card",
        WARNING,
        OPERATOR,
        "Jobs of two tenants run on the same card",
        "Check the assignment of cards to containers: without MIG, the hardware partition of a card, neither speed nor memory is kept apart.",
        "Each card has jobs of one tenant.",
    ),
    FindingKind(
        "process_stuck",
        WARNING,
        OPERATOR,
        "Dead or stuck processes keep the memory of a card",
        "End the parent of a dead process (state Z), which has not fetched its exit; stop its container. A process in state D waits inside the driver or a file system and cannot be killed: read `dmesg`, then reset the card after `gpumon release`, or reboot.",
        "The card's memory is free and the process is gone.",
    ),
    # --- the host side of the job
    FindingKind(
        "loader_workers_few",
        WARNING,
        CUSTOMER,
        "Too few processes prepare the input, so the cards wait for data",
        "Set num_workers of the DataLoader to 4 to 8 for each card, with pin_memory=True and persistent_workers=True.",
        "Utilization no longer drops to zero between batches.",
        explains="host",
    ),
    FindingKind(
        "loader_workers_many",
        WARNING,
        CUSTOMER,
        "More worker processes than CPU cores the job may use",
        "Match the workers to the CPU quota of the container (loaders of all cards together at most the number of cores), or rent more cores.",
        "The container is no longer throttled (nr_throttled in its cpu.stat stands still).",
        explains="host",
    ),
    FindingKind(
        "threads_wrong",
        INFO,
        CUSTOMER,
        "The number of CPU threads does not fit the machine (OMP_NUM_THREADS)",
        "Set OMP_NUM_THREADS to the CPU cores divided by the number of processes: 1 leaves cores unused, the default starts one thread per core in every process.",
        "CPU use is neither one core per process nor many times the cores.",
        explains="host",
    ),
    FindingKind(
        "swapping",
        WARNING,
        CUSTOMER,
        "Host memory is full and the machine swaps",
        "Use fewer loader workers, cache less of the data set, or rent more memory.",
        "Swap traffic stops and the steps no longer grow longer over hours.",
        explains="host",
    ),
    FindingKind(
        "disk_slow",
        WARNING,
        CUSTOMER,
        "The job waits for its disk",
        "Copy the data set to a local NVMe disk before training, or pack small files into large ones.",
        "The processes no longer wait for the disk (iowait falls).",
        explains="host",
    ),
    FindingKind(
        "numa_remote",
        WARNING,
        CUSTOMER,
        "Processes run on the CPU socket that is far from their card",
        "Bind each process to the socket of its card (numactl --cpunodebind=N --membind=N, or torchrun with --numa-binding), and keep a job on the cards of one socket where it fits.",
        "`gpumon topo` and the process's allowed CPUs name the same NUMA node, the half of the machine near the card.",
        explains="host",
    ),
    FindingKind(
        "rank0_busy",
        WARNING,
        CUSTOMER,
        "All cards wait at intervals while the first process saves, logs or evaluates alone",
        "Save less often, save in the background or let every process save its part (distributed checkpoint), and evaluate on all cards.",
        "The pauses become shorter or rarer.",
        explains="host",
    ),
    # --- the cards themselves
    FindingKind(
        "memory_nearly_full",
        INFO,
        CUSTOMER,
        "Card memory is nearly full",
        "Lower the batch or sequence length a little, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: at the brim the allocator stalls, and the next longer sample ends the job.",
        "A few per cent of memory stay free.",
    ),
    FindingKind(
        "memory_imbalance",
        INFO,
        CUSTOMER,
        "One card holds much more memory than the others, and limits the batch of all",
        "Check what only the first process keeps (evaluation data, a second model, tensors loaded without map_location).",
        "The cards' memory in use is within a few per cent of each other.",
    ),
    FindingKind(
        "power_limited",
        INFO,
        CUSTOMER,
        "The cards' power limit is below the default: they cannot reach their full speed",
        "Expect less than the published speed (half the power still gives a little over half of it). Ask the operator whether the limit is meant.",
        "The power limit is the card's default again.",
    ),
    FindingKind(
        "cards_hot",
        WARNING,
        OPERATOR,
        "Cards slow down because they are hot",
        "Check airflow, fans, dust and inlet temperature; leave a slot free between cards; lower the power limit until it is repaired.",
        "The thermal reasons in gpumon_gpu_throttled go to zero under load.",
    ),
    FindingKind(
        "link_narrow",
        WARNING,
        OPERATOR,
        "A card's PCIe link is narrower or slower than card and slot allow",
        "Reseat card and riser, check the slot's wiring and the BIOS setting for the slot; replace the riser. It is judged under load: an idle card lowers its link to save power.",
        "`gpumon topo` shows current and maximum width and generation equal under load.",
    ),
    FindingKind(
        "chipset_slot",
        INFO,
        OPERATOR,
        "A card sits in a slot of the chipset and shares its link with disks and network",
        "Move the card to a slot of the CPU, or do not rent it out together with the others.",
        "`gpumon topo` no longer shows a shared chipset link above the card.",
    ),
    FindingKind(
        "uplink_contention",
        INFO,
        OPERATOR,
        "Jobs of several tenants meet on one shared link and slow each other down",
        "Give jobs that exchange much data cards under one switch, and jobs of other tenants cards under another. `gpumon topo` shows the groups.",
        "gpumon_pcie_uplink_saturation_ratio of that link falls.",
    ),
    # --- gpumon itself
    FindingKind(
        "history_read_only",
        WARNING,
        OPERATOR,
        "gpumon cannot write its history",
        "Check the free space and the owner of /var/lib/gpumon; if the file is damaged, move it away and restart gpumon. Until then runs are not remembered and cannot be compared.",
        "The finding is gone after the next run.",
    ),
)

FINDINGS_BY_NAME: dict[str, FindingKind] = {row.finding: row for row in CATALOGUE}
