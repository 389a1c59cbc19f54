"""What every alert says in English; Chinese is in `texts_zh.py`. The rules, the runbook and the embedded mails share it.

A text may name labels of its alert in braces, nothing else. The words of a finding stand in `model/findings.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class AlertText(NamedTuple):
    """One alert in words."""

    summary: str  # what is so, one line
    why: str  # what it means and what it costs, for somebody who has never read a metric
    advice: str  # what to change first
    check: str  # how to see that it helped


ENGLISH: dict[str, AlertText] = {
    "GpumonJobCommunicationBound": AlertText(
        "Job {gpu_job} spends its time moving data between cards",
        "The cards compute for a while and then wait until data has crossed the links between them. While they wait they still show full utilization, so the loss does not appear in nvidia-smi. More cards make it worse: each one adds traffic to the same links.",
        "Send less and less often: accumulate gradients over several batches before each exchange, use a larger batch, avoid tensor parallelism over PCIe, or run on fewer cards. `gpumon report` names the link that is full and the layout that fits.",
        "`gpumon report` shows a smaller share of communication, and throughput goes up.",
    ),
    "GpumonJobAddGpuSlowdown": AlertText(
        "Job {gpu_job} would be faster on fewer cards",
        "Adding cards has made this job slower: what each new card computes is less than what it costs to keep all cards in step over the links.",
        "Run the job on the recommended number of cards and use the others for a second job, or change how the work is cut up so that less data crosses the links.",
        "Samples or tokens per second rise on fewer cards.",
    ),
    "GpumonJobHostBound": AlertText(
        "The cards of job {gpu_job} wait for the host",
        "The cards are ready, but the CPU does not feed them fast enough: input is being read and prepared, a checkpoint is written, weights live in host memory, or the program launches its work too slowly.",
        "Look at the detail in `gpumon report` first. Input: more loader processes and a local disk. Checkpoint: save less often or in the background. Offload: switch it off if memory allows. Launch: larger batches, CUDA graphs or torch.compile.",
        "Utilization no longer drops to zero between steps, and the steps are shorter.",
    ),
    "GpumonJobIdleAllocation": AlertText(
        "Job {gpu_job} holds cards and does nothing with them",
        "No work has reached these cards for about an hour, but nobody else can use them and they are paid for.",
        "Stop the job if it is over: a notebook or a crashed process keeps its cards until it ends. If it waits for something, start the cards when that is there.",
        "The job has ended, or its cards are busy.",
    ),
    "GpumonJobHung": AlertText(
        "Job {gpu_job} is stuck: its cards look busy, but nothing moves",
        "All cards show full utilization at low power, the links are quiet and the host makes no progress. Typically one process has died or waits elsewhere, and the others wait for it in a collective operation, for ever.",
        "Look at the last line that each process printed: one of them has stopped earlier. Kill the job and start it again with NCCL_DEBUG=INFO, and with a time-out in init_process_group, so that it ends instead of hanging.",
        "The step counter moves.",
    ),
    "GpumonJobStraggler": AlertText(
        "The other cards of job {gpu_job} wait for GPU {gpu}",
        "In every step all cards wait for the slowest one. The machine gives no reason why this one is slow: heat, power and its link are in order, so the work on it or its process on the host is heavier.",
        "Compare the work of the processes: one often does more (logging, saving, evaluation, longer samples). Check that the CPUs of this process are not used by others.",
        "No card of the job is waited for, and the steps are shorter.",
    ),
    "GpumonJobStraggler@operator": AlertText(
        "GPU {gpu} slows down job {gpu_job}: it is hot, throttled or its link is narrow",
        "In every step all cards of the job wait for the slowest one, and this one is slow because of the machine: heat, the power brake, or a PCIe link that runs below what card and slot can.",
        "Repair the cause named by the other alerts of this card, or take it out of the set that is rented out together.",
        "The card is no longer waited for.",
    ),
    "GpumonJobGpuLost": AlertText(
        "A card of job {gpu_job} does not answer any more",
        "The card is gone for the driver; work on it is lost. The job cannot go on with this card, and usually hangs.",
        "Stop the job and start it from its last checkpoint on the other cards. The operator of the machine has been told; the card needs a reset or a repair.",
        "The job runs on cards that answer.",
    ),
    "GpumonJobXid": AlertText(
        "The driver reports an error of the program in job {gpu_job}",
        "The driver stopped a piece of work on the card: usually an access outside the program's memory, a time-out or a crash of the process. The card itself is healthy.",
        "Look at the job's log for CUDA errors; run it once with CUDA_LAUNCH_BLOCKING=1 to find the place. An update of framework or driver may help.",
        "The job runs without a new error of this kind.",
    ),
    "GpumonPcieSaturated": AlertText(
        "The PCIe link of GPU {gpu} on {instance} is full",
        "For more than half of the time the link carried at least 80 % of what it can. Whether that holds a job back is told by the job's own alerts.",
        "Nothing needs repair. If the link is narrower than the card's (GpumonLinkDowntrained), start there; otherwise the job's layout decides.",
        "gpumon_pcie_saturation_ratio of the card falls.",
    ),
    "GpumonUplinkSaturated": AlertText(
        "The shared link {uplink} on {instance} is full",
        "Several cards share this link to the CPU, and together they fill it. Jobs of different tenants on these cards slow each other down.",
        "Spread jobs that exchange much data over different switches; `gpumon topo` shows which cards share the link.",
        "gpumon_pcie_uplink_saturation_ratio of the link falls.",
    ),
    "GpumonLinkDowntrained": AlertText(
        "The PCIe link of GPU {gpu} on {instance} runs below what card and slot can",
        "The link has fewer lanes than card and slot allow, or a lower generation while the card works (an idle card lowers its generation to save power; that is not counted). Every job on the card that moves data is slower.",
        "Reseat card and riser, clean the contacts, check the BIOS setting of the slot, replace the riser.",
        "`gpumon topo` shows current and maximum width and generation equal under load.",
    ),
    "GpumonPcieErrors": AlertText(
        "The PCIe link of GPU {gpu} on {instance} has errors",
        "Packets arrive damaged and are sent again, or are lost. The link is slower than it looks, and a card with such a link is often the next to fall off the bus.",
        "Reseat or replace the riser or cable, check the power connectors, try the slot at a lower generation.",
        "gpumon_pcie_errors_total and gpumon_pcie_replays_total stand still.",
    ),
    "GpumonNvlinkDown": AlertText(
        "GPU {gpu} on {instance} has lost NVLinks",
        "Fewer NVLinks, the direct links between the cards, are up than this card has had within the last week.",
        "Read the kernel log for NVLink messages (Xid 74), restart the fabric manager on NVSwitch machines, reset the card, check bridge or baseboard.",
        "gpumon_nvlink_links shows the former number as active.",
    ),
    "GpumonThermalThrottle": AlertText(
        "GPU {gpu} on {instance} is slowed down by heat",
        "The card lowers its clock to stay below its temperature limit; jobs on it, and those that wait for it, are slower.",
        "Check fans, dust, airflow and inlet temperature; leave space between cards; lower the power limit until it is repaired.",
        "gpumon_gpu_throttle_seconds_total stands still for the thermal reasons.",
    ),
    "GpumonPowerBrake": AlertText(
        "The power supply slows down GPU {gpu} on {instance}",
        "A signal from outside the card, the power brake, forces its clock down: the supply, its cable or the machine's power management cannot deliver what the card asks for.",
        "Check power supplies, cables and connectors and their load; lower the power limit of the cards until it is repaired.",
        "gpumon_gpu_throttle_seconds_total stands still for hw_power_brake.",
    ),
    "GpumonGpuLost": AlertText(
        "GPU {gpu} on {instance} does not answer any more",
        "The driver cannot reach the card, or a call to it hangs. Work on it is lost; it usually comes back only after a reset or a restart of the machine.",
        "Read the kernel log (Xid 79 means that the card fell off the bus). Reset the card if no process holds it, else restart the machine. If it returns, check power and riser.",
        "gpumon_gpu_up of the card is 1.",
    ),
    "GpumonGpuMissing": AlertText(
        "{instance} has fewer cards than it should",
        "The driver lists fewer cards than the configuration says, or than were there before; cards handed to virtual machines do not count.",
        "Look for the card in lspci: if it is there, look at the driver's messages; if not, check seating and power. If it was taken out on purpose, set sampling.expected_gpus.",
        "The number of cards is the expected one.",
    ),
    "GpumonXidHardware": AlertText(
        "GPU {gpu} on {instance} reports a hardware error (Xid {xid})",
        "The driver reports an error that comes from the card, its memory or its links, not from the program. It stays visible for six hours, also over a restart of gpumon.",
        "Take the card out of service, look up the code in the kernel log, reset it and run a memory test before it is rented out again. A repeated error is a reason to replace the card.",
        "No new error for six hours under load.",
    ),
    "GpumonXidHardware@info": AlertText(
        "GPU {gpu} on {instance} has set aside damaged memory (Xid {xid})",
        "The card has found a damaged row or page of its memory and recorded it. That is how it is meant to work.",
        "Reset the card at the next opportunity so that the replacement takes effect; watch whether more follow.",
        "No further rows are set aside.",
    ),
    "GpumonXidUnknown": AlertText(
        "GPU {gpu} on {instance} reports an error without a known meaning (Xid {xid})",
        "The driver reports a code that gpumon does not rank as an error of the program or of the hardware.",
        "Look up the code in the kernel log and in the driver's documentation.",
        "No new error of this code.",
    ),
    "GpumonEccUncorrected": AlertText(
        "GPU {gpu} on {instance} has uncorrected memory errors",
        "Error correction found damage that it could not repair: the result of a job on this card may be wrong, or the job was stopped.",
        "Take the card out of service, reset it and test its memory; replace it if the errors return.",
        "gpumon_gpu_ecc_errors_total for uncorrected errors stands still.",
    ),
    "GpumonRowRemap": AlertText(
        "GPU {gpu} on {instance} waits for a reset to replace a damaged memory row",
        "The card has found a damaged row of its memory and will use a spare one after its next reset.",
        "Drain the card and reset it.",
        "gpumon_gpu_row_remap_pending is 0.",
    ),
    "GpumonRowRemap@critical": AlertText(
        "GPU {gpu} on {instance} has no spare memory row left",
        "A damaged row of the card's memory could not be replaced.",
        "Take the card out of service and replace it.",
        "gpumon_gpu_row_remap_failed is 0 on the new card.",
    ),
    "GpumonDown": AlertText(
        "gpumon on {instance} does not answer",
        "Prometheus has had no answer for five minutes, or the node has left its list of targets within the last day. Nothing is known of its cards and jobs; alerts about them are held back until it is there again.",
        "Is the machine up? `systemctl status gpumon`, then the network and the listen address. A node that was taken away on purpose stays in this alert for a day: silence it.",
        "up is 1 for the target.",
    ),
    "GpumonSamplerStale": AlertText(
        "gpumon on {instance} answers, but its figures are old",
        "The loop that reads the cards has stopped: scrapes get gpumon's own series only.",
        "`journalctl -u gpumon` says why. A driver call that hangs for every card points at the driver; restart gpumon, then the machine.",
        "/-/healthy answers 200.",
    ),
    "GpumonSamplerOverBudget": AlertText(
        "gpumon on {instance} costs more than it should",
        "The daemon uses more than a tenth of a CPU core, or spends more than a tenth of the time inside driver calls, although it stretches its periods when it exceeds its budget.",
        "`gpumon doctor` shows what each driver call costs on this machine. Raise sampling.process_interval or lower the budgets.",
        "The rates of gpumon_sampler_cpu_seconds_total and gpumon_driver_seconds_total are below 0.1.",
    ),
    "GpumonDriverMissing": AlertText(
        "The NVIDIA driver on {instance} does not answer",
        "There are NVIDIA cards in the machine, but the driver's library cannot be opened, or was released for longer than ten minutes.",
        "`gpumon doctor` says which part is missing. After a driver upgrade load the new module or restart the machine.",
        "gpumon_nvml_up is 1.",
    ),
    "GpumonLabelsRenamed": AlertText(
        "The scrape of {instance} renames gpumon's labels",
        "A label of the scrape target has the name of one of gpumon's labels, so Prometheus renames gpumon's to exported_... Alerts for customers are held back, for they would reach the wrong one.",
        "Set honor_labels: true in the scrape job (see deploy/prometheus/scrape.example.yml), or rename the target's label.",
        "No series of gpumon has a label that begins with exported_.",
    ),
    "GpumonNotificationsFailing": AlertText(
        "gpumon on {instance} cannot deliver notifications by {channel}",
        "Messages were refused or the service did not answer. They are kept and tried again; when the queue is full or they are too old, they are dropped.",
        "`gpumon notify --test TENANT` shows the service's own answer: usually an expired address, a missing keyword, or a limit that is too low.",
        'gpumon_notifications_total grows for result="sent" only.',
    ),
    "GpumonNodeFinding": AlertText(
        "gpumon has found something wrong with {instance}",
        "A condition of the machine slows down jobs on it. The finding says which.",
        "See the finding.",
        "The finding is gone.",
    ),
    "GpumonHistoryReadOnly": AlertText(
        "gpumon on {instance} cannot write its history",
        "Runs are no longer remembered, so later ones cannot be compared with them.",
        "Check the free space and the owner of /var/lib/gpumon; if the file is damaged, move it away and restart gpumon.",
        "The finding history_read_only is gone.",
    ),
    "GpumonJobMisconfigured": AlertText(
        "Job {gpu_job} could run better",
        "gpumon has recognised a common mistake in how the job is started or cut up. The finding says which.",
        "See the finding.",
        "The finding is gone.",
    ),
}
