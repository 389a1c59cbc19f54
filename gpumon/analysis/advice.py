"""What to do about a verdict, in plain words: one sentence or two for each class and detail, English and Chinese.

Findings carry their own, more exact advice (model/findings.py); these are the words where only the class is known.
"""

from __future__ import annotations

from gpumon.model.verdict import JobClass

NONE = ("", "")

ADVICE: dict[tuple[JobClass, str], tuple[str, str]] = {
    (JobClass.COMPUTE, ""): (
        "The cards do arithmetic most of the time: nothing holds them back. A faster step needs lower precision, a"
        " better kernel, or more cards.",
        "显卡大部分时间都在做计算，没有被其他环节拖住。想更快，可以降低精度、换更高效的算子，或增加显卡。",
    ),
    (JobClass.MEMORY, ""): (
        "The cards' own memory is the limit. Answer more requests at once, or use smaller weights (8 or 4 bit): each"
        " byte that is read then does more work.",
        "瓶颈是显存带宽。可以增大并发（一次处理更多请求），或使用 8 位、4 位量化权重，让每次读取的数据做更多计算。",
    ),
    (JobClass.COMMUNICATION, ""): (
        "The cards wait for data from each other. Exchange less often (gradient accumulation), send less, or use fewer"
        " cards.",
        "显卡在互相等待数据。可以降低通信频率（梯度累积）、减少通信量，或减少显卡数量。",
    ),
    (JobClass.COMMUNICATION, "bandwidth"): (
        "The link between cards is full. Accumulate gradients over several micro-batches before exchanging them, or cut"
        " the model into pipeline stages: stages send little.",
        "显卡间的链路已经跑满。可以累积多个小批次的梯度后再同步，或改用流水线并行：各段之间传的数据很少。",
    ),
    (JobClass.COMMUNICATION, "uplink"): (
        "The path that the cards share (switch, processor, main memory) is full; each card's own link is not. Fewer"
        " cards, or cards under one switch, may be as fast. Exchanging less often helps as well.",
        "多张显卡共用的通路（交换芯片、CPU、内存）已经跑满，而每张卡自己的链路并没有满。"
        "减少显卡数量，或使用同一交换芯片下的显卡，速度可能一样；降低通信频率也有帮助。",
    ),
    (JobClass.COMMUNICATION, "latency"): (
        "The cards exchange many small messages and wait for each of them. Larger batches, fewer cards in tensor"
        " parallel, or separate copies of the model on each card avoid that.",
        "显卡之间频繁交换很小的消息，并且每次都要等待。可以增大批次、减少张量并行的卡数，或每张卡各跑一份模型。",
    ),
    (JobClass.COMMUNICATION, "host_path"): (
        "The cards exchange data through the processor. Use the nccl backend instead of gloo, and give the container"
        " enough shared memory (--shm-size or --ipc=host).",
        "显卡间的数据要经过 CPU 转发。请使用 nccl 后端代替 gloo，并给容器足够的共享内存（--shm-size 或 --ipc=host）。",
    ),
    (JobClass.COMMUNICATION, "straggler"): (
        "The other cards wait for one that is slower. Look at that card's heat, power limit and link; leaving it out"
        " may be as fast.",
        "其他显卡在等一张较慢的卡。请检查那张卡的温度、功率上限和链路；不用它，速度可能也一样。",
    ),
    (JobClass.COMMUNICATION, "pipeline_bubble"): (
        "The stages of the pipeline wait for their turn. More micro-batches in a step shorten the wait; for one stream"
        " of requests, fewer cards or separate copies are as fast.",
        "流水线的各段在轮流等待。增加每步的小批次数可以缩短等待；若只有单路请求，减少显卡或多份副本同样快。",
    ),
    (JobClass.HOST, ""): (
        "The cards wait for the host. Look at what its processor and disk do while no kernel runs.",
        "显卡在等主机。请看没有算子运行时 CPU 和磁盘在做什么。",
    ),
    (JobClass.HOST, "input"): (
        "The cards wait for data. Use more loader processes (4 to 8 a card), keep them alive between epochs, and put"
        " the data on a local disk.",
        "显卡在等数据。请增加数据加载进程（每卡 4 到 8 个）并让其常驻，把数据放到本地磁盘。",
    ),
    (JobClass.HOST, "checkpoint"): (
        "One process writes a checkpoint while the others wait. Save less often, in the background, or let every rank"
        " write its own part.",
        "一个进程在写检查点，其他进程都在等。可以降低保存频率、改为后台保存，或让每个进程各写一部分。",
    ),
    (JobClass.HOST, "offload"): (
        "Weights or optimizer states live in main memory and are moved for every step. If the model fits, turn"
        " offloading off; an 8-bit optimizer or adapters (LoRA) make it fit more easily.",
        "权重或优化器状态放在内存里，每一步都要搬运。如果显存放得下，请关闭卸载；8 位优化器或 LoRA 更容易放下。",
    ),
    (JobClass.HOST, "launch"): (
        "The kernels are so small that starting them takes longer than running them. Use a larger batch, CUDA graphs,"
        " or torch.compile.",
        "算子太小，启动它们比运行它们还慢。请增大批次，或使用 CUDA Graphs、torch.compile。",
    ),
    (JobClass.THROTTLED, ""): (
        "The cards are slowed down by the machine. Ask the host of the machine.",
        "显卡被机器限速了，请联系机器的提供方。",
    ),
    (JobClass.THROTTLED, "power"): (
        "Somebody set the cards' power limit well below their default, and it holds the job. Ask for the"
        " default limit.",
        "有人把显卡的功率上限调低了很多，并且它正在限制任务。请要求恢复默认上限。",
    ),
    (JobClass.THROTTLED, "thermal"): (
        "The cards are too hot and slow themselves down. The machine needs more air, or a lower power"
        " limit on purpose.",
        "显卡过热，自动降频。机器需要更好的散热，或者有意调低功率上限。",
    ),
    (JobClass.THROTTLED, "brake"): (
        "The power supply tells the cards to brake. That is a fault of the machine: tell its host.",
        "电源在要求显卡降速，这是机器的故障，请告知机器的提供方。",
    ),
    (JobClass.IDLE, ""): (
        "The cards are held and do nothing. Stop the job, or give the cards back until they are needed.",
        "显卡被占用但没有在工作。请停止任务，或在需要之前先释放显卡。",
    ),
    (JobClass.HUNG, ""): (
        "The job has stood still for minutes: its cards wait for a message that does not come. Stop it and look at the"
        " last lines of every rank's log; NCCL_P2P_DISABLE=1 tells whether direct access between cards is to blame.",
        "任务已经停滞数分钟，显卡在等一条不会到来的消息。请停止任务并查看每个进程日志的最后几行；"
        "可用 NCCL_P2P_DISABLE=1 判断是否是显卡直连的问题。",
    ),
    (JobClass.UNKNOWN, ""): (
        "The evidence does not tell what holds the job back. More signals or more time may.",
        "现有证据还不能说明是什么拖慢了任务，需要更多信号或更长时间。",
    ),
}


def for_verdict(job_class: JobClass, detail: str) -> tuple[str, str]:
    """Return the advice in English and Chinese; that of the class where the detail has none."""
    return ADVICE.get((job_class, detail), ADVICE.get((job_class, ""), NONE))
