"""What every alert says in Chinese; English is in `texts.py`, which explains the fields."""

from __future__ import annotations

from gpumon.notify.texts import AlertText

CHINESE: dict[str, AlertText] = {
    "GpumonJobCommunicationBound": AlertText(
        "任务 {gpu_job} 的时间花在卡间传数据上",
        "显卡算一会儿，就要等数据在卡间传完。等待时占用率仍显示 100 %，所以 nvidia-smi 里看不出来。加卡会更糟：每张新卡都往同样的链路上加流量。",
        "少传、晚传：累积几个批次再交换梯度，加大批次，不要在 PCIe 上做张量并行，或者用更少的卡。gpumon report 会指出哪条链路满了、哪种并行方式合适。",
        "gpumon report 里通信占比变小，吞吐上升。",
    ),
    "GpumonJobAddGpuSlowdown": AlertText(
        "任务 {gpu_job} 用更少的卡会更快",
        "加卡让这个任务变慢了：每张新卡带来的计算量，抵不上让所有卡通过链路保持同步的代价。",
        "按推荐的卡数运行，其余的卡跑另一个任务；或者换一种切分方式，减少卡间数据量。",
        "用更少的卡后，每秒样本数或词元数上升。",
    ),
    "GpumonJobHostBound": AlertText(
        "任务 {gpu_job} 的显卡在等主机",
        "显卡已经就绪，但 CPU 供不上：正在读取和准备输入、写检查点、权重放在主机内存里，或者程序下发任务太慢。",
        "先看 gpumon report 里的细分。输入：增加数据加载进程、用本地盘。检查点：降低频率或在后台保存。卸载：显存够就关掉。下发：加大批次，用 CUDA graphs 或 torch.compile。",
        "两步之间占用率不再掉到零，每步变短。",
    ),
    "GpumonJobIdleAllocation": AlertText(
        "任务 {gpu_job} 占着显卡却什么都没做",
        "大约一小时没有任何工作到达这些显卡，但别人用不了，费用照算。",
        "任务已经结束就停掉它：笔记本或崩溃的进程会一直占着显卡。如果在等什么，等到了再启动显卡。",
        "任务已结束，或显卡在忙。",
    ),
    "GpumonJobHung": AlertText(
        "任务 {gpu_job} 卡住了：显卡看起来很忙，其实毫无进展",
        "所有显卡占用率满、功率却低，链路没有流量，主机也没有进展。通常是某个进程退出了或在别处等待，其他进程在集合通信里永远等它。",
        "看每个进程最后输出的一行：总有一个停得更早。终止任务，带上 NCCL_DEBUG=INFO 重新启动，并在 init_process_group 里设超时，这样它会退出而不是一直卡住。",
        "步数开始增长。",
    ),
    "GpumonJobStraggler": AlertText(
        "任务 {gpu_job} 的其他卡都在等 GPU {gpu}",
        "每一步所有卡都要等最慢的那张。从机器上看不出原因：温度、功率和链路都正常，所以是它上面的工作或它在主机上的进程更重。",
        "比较各进程的工作量：常有一个进程做得更多（写日志、保存、评估、更长的样本）。检查这个进程的 CPU 有没有被别的程序占用。",
        "没有卡让别的卡等待，每步变短。",
    ),
    "GpumonJobStraggler@operator": AlertText(
        "GPU {gpu} 拖慢了任务 {gpu_job}：过热、降频或链路变窄",
        "每一步任务的所有卡都要等最慢的那张，而它慢的原因在机器：温度、供电刹车，或 PCIe 链路低于显卡和插槽应有的规格。",
        "先修复这张卡其他告警里的原因，或者不要把它和其他卡一起出租。",
        "不再有卡在等它。",
    ),
    "GpumonJobGpuLost": AlertText(
        "任务 {gpu_job} 有一张显卡没有响应了",
        "驱动已经找不到这张卡，上面的工作丢失了。任务无法再用这张卡，通常会卡住。",
        "停掉任务，在其余的卡上从上一个检查点重新开始。机器管理员已收到通知；这张卡需要复位或维修。",
        "任务在有响应的显卡上运行。",
    ),
    "GpumonJobXid": AlertText(
        "驱动报告任务 {gpu_job} 的程序出错",
        "驱动停掉了显卡上的一段工作：通常是程序访问了不该访问的内存、超时或进程崩溃。显卡本身是好的。",
        "在任务日志里找 CUDA 错误；带上 CUDA_LAUNCH_BLOCKING=1 运行一次找到位置。更新框架或驱动也可能有帮助。",
        "任务运行时不再出现同类错误。",
    ),
    "GpumonPcieSaturated": AlertText(
        "{instance} 上 GPU {gpu} 的 PCIe 链路满了",
        "一半以上的时间里，链路流量达到了能力的 80 % 以上。是否拖慢任务，由任务自己的告警说明。",
        "不需要维修。如果链路比显卡应有的窄（GpumonLinkDowntrained），先处理它；否则取决于任务的并行方式。",
        "这张卡的 gpumon_pcie_saturation_ratio 下降。",
    ),
    "GpumonUplinkSaturated": AlertText(
        "{instance} 上的共用链路 {uplink} 满了",
        "几张卡共用这条通往 CPU 的链路，合起来把它占满了。不同租户的任务在这些卡上会互相拖慢。",
        "把数据交换多的任务分散到不同的交换芯片下；gpumon topo 会显示哪些卡共用链路。",
        "这条链路的 gpumon_pcie_uplink_saturation_ratio 下降。",
    ),
    "GpumonLinkDowntrained": AlertText(
        "{instance} 上 GPU {gpu} 的 PCIe 链路低于显卡和插槽应有的规格",
        "链路的通道数比显卡和插槽允许的少，或者显卡工作时代数偏低（空闲时为省电降低代数，不算在内）。这张卡上所有要传数据的任务都会变慢。",
        "重新插好显卡和转接线，清洁触点，检查 BIOS 里该插槽的设置，更换转接线。",
        "负载下 gpumon topo 显示的当前宽度和代数与最大值一致。",
    ),
    "GpumonPcieErrors": AlertText(
        "{instance} 上 GPU {gpu} 的 PCIe 链路有错误",
        "数据包损坏后要重发，或者丢失。链路比看起来更慢，这样的卡往往就是下一张掉线的卡。",
        "重插或更换转接线，检查供电接头，让插槽以较低的代数运行试试。",
        "gpumon_pcie_errors_total 和 gpumon_pcie_replays_total 不再增长。",
    ),
    "GpumonNvlinkDown": AlertText(
        "{instance} 上 GPU {gpu} 有 NVLink 断了",
        "连通的 NVLink（卡间直连链路）比这张卡过去一周有过的少。",
        "在内核日志里找 NVLink 信息（Xid 74）；NVSwitch 机器上重启 fabric manager；复位显卡；检查桥接器或底板。",
        "gpumon_nvlink_links 的 active 恢复到原来的数量。",
    ),
    "GpumonThermalThrottle": AlertText(
        "{instance} 上 GPU {gpu} 因过热降速",
        "显卡降低频率以保持在温度上限之下；它上面的任务以及等它的任务都会变慢。",
        "检查风扇、灰尘、风道和进风温度；显卡之间留出空隙；修好之前先调低功率上限。",
        "温度原因的 gpumon_gpu_throttle_seconds_total 不再增长。",
    ),
    "GpumonPowerBrake": AlertText(
        "{instance} 上 GPU {gpu} 因供电不足降速",
        "来自显卡外部的信号（供电刹车）强制它降频：电源、线缆或机器的功率管理供不上显卡要的功率。",
        "检查电源、线缆、接头及其负载；修好之前先调低显卡的功率上限。",
        "hw_power_brake 的 gpumon_gpu_throttle_seconds_total 不再增长。",
    ),
    "GpumonGpuLost": AlertText(
        "{instance} 上 GPU {gpu} 没有响应了",
        "驱动够不到这张卡，或者对它的调用卡住了。上面的工作丢失，通常要复位显卡或重启机器才能恢复。",
        "看内核日志（Xid 79 表示显卡从总线上掉了）。没有进程占用时复位显卡，否则重启机器。恢复后检查供电和转接线。",
        "这张卡的 gpumon_gpu_up 为 1。",
    ),
    "GpumonGpuMissing": AlertText(
        "{instance} 的显卡比应有的少",
        "驱动列出的显卡比配置里写的或以前有过的少；交给虚拟机的卡不算。",
        "用 lspci 找这张卡：找得到就看驱动的信息，找不到就检查插接和供电。如果是有意拆走的，请设置 sampling.expected_gpus。",
        "显卡数量与应有的一致。",
    ),
    "GpumonXidHardware": AlertText(
        "{instance} 上 GPU {gpu} 报告硬件错误（Xid {xid}）",
        "驱动报告的错误来自显卡、显存或链路，不是程序。它会显示六小时，gpumon 重启也不会消失。",
        "让这张卡停止服务，在内核日志里查这个代码，复位并做显存测试后再出租。反复出现就更换显卡。",
        "负载下六小时没有新错误。",
    ),
    "GpumonXidHardware@info": AlertText(
        "{instance} 上 GPU {gpu} 停用了损坏的显存（Xid {xid}）",
        "显卡发现显存有损坏的行或页，并已记录下来。这是正常的处理方式。",
        "有机会时复位显卡，让替换生效；注意是否还会出现。",
        "不再有新的行被停用。",
    ),
    "GpumonXidUnknown": AlertText(
        "{instance} 上 GPU {gpu} 报告含义不明的错误（Xid {xid}）",
        "驱动报告的代码，gpumon 没有归为程序错误或硬件错误。",
        "在内核日志和驱动文档里查这个代码。",
        "这个代码不再出现。",
    ),
    "GpumonEccUncorrected": AlertText(
        "{instance} 上 GPU {gpu} 有无法纠正的显存错误",
        "纠错发现了无法修复的损坏：这张卡上任务的结果可能有误，或任务已被停止。",
        "让这张卡停止服务，复位并测试显存；错误再次出现就更换。",
        "无法纠正的 gpumon_gpu_ecc_errors_total 不再增长。",
    ),
    "GpumonRowRemap": AlertText(
        "{instance} 上 GPU {gpu} 等待复位以替换损坏的显存行",
        "显卡发现显存有损坏的行，下次复位后会改用备用行。",
        "让任务离开这张卡，然后复位。",
        "gpumon_gpu_row_remap_pending 为 0。",
    ),
    "GpumonRowRemap@critical": AlertText(
        "{instance} 上 GPU {gpu} 没有可用的备用显存行了",
        "显存里有一行损坏，无法替换。",
        "让这张卡停止服务并更换。",
        "新卡的 gpumon_gpu_row_remap_failed 为 0。",
    ),
    "GpumonDown": AlertText(
        "{instance} 上的 gpumon 没有响应",
        "Prometheus 五分钟没有得到回答，或者这个节点在过去一天里从采集目标中消失了。它的显卡和任务情况不明；在它恢复之前，相关告警先不发送。",
        "机器开着吗？先看 systemctl status gpumon，再看网络和监听地址。有意撤走的节点会在此告警里停留一天：请静默它。",
        "该目标的 up 为 1。",
    ),
    "GpumonSamplerStale": AlertText(
        "{instance} 上的 gpumon 有响应，但数据是旧的",
        "读取显卡的循环停了：采集只能得到 gpumon 自身的指标。",
        "journalctl -u gpumon 会说明原因。如果每张卡的驱动调用都卡住，问题在驱动；先重启 gpumon，再重启机器。",
        "/-/healthy 返回 200。",
    ),
    "GpumonSamplerOverBudget": AlertText(
        "{instance} 上的 gpumon 开销过大",
        "守护进程用了超过十分之一个 CPU 核，或超过十分之一的时间花在驱动调用里，尽管超出预算时它会放慢采样。",
        "gpumon doctor 会显示每种驱动调用在这台机器上的开销。请加大 sampling.process_interval 或调低预算。",
        "gpumon_sampler_cpu_seconds_total 和 gpumon_driver_seconds_total 的速率低于 0.1。",
    ),
    "GpumonDriverMissing": AlertText(
        "{instance} 上的 NVIDIA 驱动没有响应",
        "机器里有 NVIDIA 显卡，但驱动库打不开，或者已被释放超过十分钟。",
        "gpumon doctor 会指出缺了哪部分。升级驱动后请加载新模块或重启机器。",
        "gpumon_nvml_up 为 1。",
    ),
    "GpumonLabelsRenamed": AlertText(
        "采集 {instance} 时 gpumon 的标签被改名",
        "采集目标有一个标签与 gpumon 的标签同名，Prometheus 就把 gpumon 的改成了 exported_...。发给客户的告警会发错人，所以先停发。",
        "在采集任务里设 honor_labels: true（见 deploy/prometheus/scrape.example.yml），或给目标的标签改名。",
        "gpumon 的指标不再有以 exported_ 开头的标签。",
    ),
    "GpumonNotificationsFailing": AlertText(
        "{instance} 上的 gpumon 无法通过 {channel} 送达通知",
        "消息被拒绝，或服务没有回答。消息会保留并重试；队列满了或太旧时会丢弃。",
        "gpumon notify --test 租户 会显示服务的原话：通常是地址过期、缺少关键词，或限额太低。",
        'gpumon_notifications_total 只有 result="sent" 增长。',
    ),
    "GpumonNodeFinding": AlertText(
        "gpumon 发现 {instance} 有问题",
        "机器的某种状况拖慢了上面的任务，具体见发现项。",
        "见发现项。",
        "发现项消失。",
    ),
    "GpumonHistoryReadOnly": AlertText(
        "{instance} 上的 gpumon 无法写入历史",
        "运行情况不再被记住，以后的运行就无从比较。",
        "检查 /var/lib/gpumon 的剩余空间和属主；如果文件损坏，移走它并重启 gpumon。",
        "发现项 history_read_only 消失。",
    ),
    "GpumonJobMisconfigured": AlertText(
        "任务 {gpu_job} 可以运行得更好",
        "gpumon 发现任务的启动或切分方式有一个常见的错误，具体见发现项。",
        "见发现项。",
        "发现项消失。",
    ),
}
