"""The catalogue of findings in Chinese: title, advice and check by name. English and everything else: `findings.py`."""

from __future__ import annotations

CHINESE: dict[str, tuple[str, str, str]] = {
    "nccl_p2p_disabled": (
        "显卡之间的直接传输被关掉了（NCCL_P2P_DISABLE）",
        "从任务的环境变量中去掉 NCCL_P2P_DISABLE：这些显卡可以直接读写彼此的显存，设了它每个字节都要绕道主机内存。",
        "重启任务后每步变短；有 NVLink 的机器上 NVLink 流量不再为零。",
    ),
    "nccl_shm_disabled": (
        "通过共享内存的传输被关掉了（NCCL_SHM_DISABLE）",
        "去掉 NCCL_SHM_DISABLE：没有共享内存，同一台机器上的显卡只能走网络套接字交换数据。如果当初是因为 /dev/shm 太小才设的，请改为加大 /dev/shm。",
        "任务的回环网卡（lo）流量几乎降到零，每步变短。",
    ),
    "shm_small": (
        "进程间共享内存 /dev/shm 太小",
        "启动容器时加 --shm-size=16g（或 --ipc=host）。Docker 默认只给 64 MB，数据加载进程和 NCCL（负责卡间传数据的库）很容易用完，任务会变慢，或者报 bus error 退出。",
        "在容器里运行 df -h /dev/shm，能看到新的大小。",
    ),
    "shm_separate": (
        "同一个任务的各进程没有共用 /dev/shm",
        "把任务的所有进程放进同一个容器，或者让各容器共用 IPC 命名空间（--ipc=container:名称 或 --ipc=host）；否则显卡只能走网络套接字交换数据。",
        "回环网卡（lo）流量几乎降到零，每步变短。",
    ),
    "gloo_backend": (
        "卡间数据经过 CPU 交换（后端是 gloo，不是 nccl）",
        '改用 init_process_group("nccl")：gloo 会把每份梯度拷到 CPU，在那里相加，再拷回来。',
        "任务的 CPU 占用下降，每步快好几倍。",
    ),
    "nvlink_unused": (
        "显卡有 NVLink，多卡任务却走 PCIe",
        "检查虚拟机里的卡间直连（gpumon topo）：没有它，卡间链路一直闲着，任务只有几分之一的速度。NVSwitch 机器上还要运行 fabric manager。",
        "任务运行时能看到 NVLink 流量。",
    ),
    "acs_redirects": (
        "PCIe 访问控制（ACS）或 IOMMU 让卡间数据绕道 CPU",
        "用容器的机器：以 iommu=pt 启动，并关掉显卡上方各桥的 ACS 重定向。把显卡直通给虚拟机的机器请保持开启：它们负责隔离租户。",
        "gpumon doctor 不再提到这个桥，卡间传输不再卡死或极慢。",
    ),
    "hung_collective": (
        "卡间传输从一开始就卡住了：占用率满，却没有流量",
        "停掉任务，带上 NCCL_P2P_DISABLE=1 和 NCCL_DEBUG=INFO 再启动一次。如果能跑，说明这台机器的卡间直连有问题，请告诉管理员；如果还是不行，就是有进程没到齐或在别处等待，请比较各进程最后输出的内容。",
        "步数开始增长。",
    ),
    "vllm_custom_allreduce_off": (
        "走 PCIe 的卡超过两张时，vLLM 用不了自带的快速交换",
        "每个服务只用两张卡，多开几个服务，而不是一个服务占用全部显卡。",
        "所有服务合计每秒处理的请求更多。",
    ),
    "tp_over_pcie": (
        "在 PCIe 上做张量并行：模型每一层都要在卡间交换好几次数据",
        "如果一张卡放得下模型，就每张卡各跑一份；放不下，就用流水线并行（每张卡负责几层）或更小的量化。没有 NVLink 时，张量并行只对单个用户的延迟有好处。",
        "所有显卡合计每秒的请求数或样本数上升，链路流量下降。",
    ),
    "tp_uneven": (
        "张量并行的卡数使部分显卡没有活干",
        "用 1、2、4 或 8：卡数必须能整除模型的注意力头数。任务用几张卡就租几张。",
        "任务没有闲着的显卡。",
    ),
    "needless_sharding": (
        "每张卡都放得下模型，却把模型切到了所有卡上（FSDP 或 ZeRO-3）",
        "改用 ZeRO-1、ZeRO-2 或普通数据并行（DDP）：切开权重会让每张卡在每一步都重新取一遍。",
        "链路流量下降三分之一以上，每步变短；显存占用会上升。",
    ),
    "no_accumulation": (
        "每个小批次之后都交换梯度，而链路没有这么快",
        "累积 4 到 16 个小批次再交换一次梯度（gradient_accumulation_steps），并相应减少学习率计划的步数。",
        "同样时间里交换次数变少，每秒样本数上升。",
    ),
    "accumulation_syncs": (
        "梯度虽然在累积，却仍在每个小批次之后交换",
        "除最后一个小批次外，都放进 model.no_sync()（accelerate：accelerator.accumulate(model)）。ZeRO-2 和 FSDP 本来就每次都交换：显存允许时改用 ZeRO-1 或 DDP。",
        "每步的流量降为原来的几分之一（累积了几个批次就是几分之一）。",
    ),
    "batch_small": (
        "批次对这些显卡来说太小：显存大半空着，功率也上不去",
        "加大每张卡的批次，直到用掉大部分显存，并调整学习率。",
        "功率和每秒样本数上升。",
    ),
    "data_parallel": (
        "一个进程带所有显卡（torch.nn.DataParallel）",
        "改用 DistributedDataParallel，用 torchrun --nproc_per_node=卡数 启动：DataParallel 每一步都要把整个模型从第一张卡发给其他卡。",
        "每张卡有自己的进程，而且一样忙。",
    ),
    "device_map_training": (
        '模型用 device_map="auto" 摊在多张卡上：它们轮流干活',
        "训练时请在每张卡上以 4 bit 加载模型并用 DDP；提供服务时用 vLLM 或 SGLang。device_map 是为了放得下，不是为了跑得快。",
        "所有显卡同时在忙。",
    ),
    "layer_split_one_stream": (
        "单路生成时按层切到多张卡：同一时刻只有一张卡在干活",
        "模型需要几张卡就用几张，或者同时处理多个请求。按层切分时（llama.cpp -sm layer），加卡不会让单路更快。",
        "用更少的卡速度不变，或同时处理多个请求时总速度上升。",
    ),
    "replicas_instead": (
        "一张卡就放得下模型，几张卡却把时间花在互相等待上",
        "每张卡各跑一份，把请求或实验分给它们。",
        "显卡之间不再交换数据，总产出上升。",
    ),
    "needless_offload": (
        "显存够用，优化器或权重却放在主机内存里",
        "关掉 CPU 卸载（DeepSpeed 的 offload_optimizer 和 offload_param）。显存不够时，先试 8 bit 优化器或 LoRA（只训练模型的一小部分附加参数）。",
        "与主机内存之间的突发流量消失，每步变短。",
    ),
    "asked_not_seen": (
        "任务是按多卡一起计算启动的，但看到每张卡都在各算各的",
        "检查程序是否把各进程连在一起（先 init_process_group，再用 DistributedDataParallel 或 FSDP 包住模型，或者 accelerator.prepare）：否则每个进程只是各自训练一份模型，多出来的卡没有用处。",
        "显卡之间开始交换数据，一次训练的总步数变少。",
    ),
    "one_card_used": (
        "任务有好几张卡，却只用了一张",
        "用 torchrun --nproc_per_node=卡数 或 accelerate launch --num_processes 卡数 启动；直接用 python 只会用一张卡。或者只租一张卡。",
        "每张卡都有进程，而且在忙。",
    ),
    "visible_devices_narrow": (
        "CUDA_VISIBLE_DEVICES 让任务看不到部分租来的显卡",
        "放宽或去掉 CUDA_VISIBLE_DEVICES，或者少租几张卡。",
        "任务在每张卡上都有进程。",
    ),
    "cards_idle": (
        "任务的部分显卡占着显存，却什么都没做",
        "释放用不到的显卡，或者给它们活干：检查进程数以及每个进程用的是哪张卡。",
        "任务没有闲着的显卡，或者占用的卡变少了。",
    ),
    "mixed_cards": (
        "任务用的显卡快慢不一：大家都按最慢的那张走",
        "使用同一型号的显卡，或者给慢卡分配较小的批次。",
        "没有显卡在等别的卡。",
    ),
    "two_jobs_one_card": (
        "您的两个任务挤在同一张卡上，互相拖慢",
        "把其中一个移到空闲的显卡上（CUDA_VISIBLE_DEVICES），或者停掉忘了关的那个。",
        "每张卡只有一个任务。",
    ),
    "two_tenants_one_card": (
        "两个租户的任务在同一张卡上",
        "检查显卡分配给容器的方式：没有 MIG（把一张卡从硬件上分成几份），速度和显存都无法隔离。",
        "每张卡只有一个租户的任务。",
    ),
    "process_stuck": (
        "已死或卡死的进程占着显存",
        "结束僵尸进程（状态 Z）的父进程，或停掉它的容器。状态 D 的进程卡在驱动或文件系统里，杀不掉：查看 dmesg，先运行 gpumon release 再复位显卡，或者重启机器。",
        "显存已释放，进程已消失。",
    ),
    "loader_workers_few": (
        "准备输入数据的进程太少，显卡在等数据",
        "把 DataLoader 的 num_workers 设为每张卡 4 到 8，并设 pin_memory=True 和 persistent_workers=True。",
        "两个批次之间占用率不再掉到零。",
    ),
    "loader_workers_many": (
        "工作进程比任务可用的 CPU 核还多",
        "让工作进程数与容器的 CPU 配额相配（所有显卡的加载进程加起来不超过核数），或者租更多的核。",
        "容器不再被限流（cpu.stat 里的 nr_throttled 不再增长）。",
    ),
    "threads_wrong": (
        "CPU 线程数与机器不相配（OMP_NUM_THREADS）",
        "把 OMP_NUM_THREADS 设为 CPU 核数除以进程数：设为 1 会闲置核，不设则每个进程都会按核数开线程。",
        "CPU 占用既不是每个进程一个核，也不是核数的好几倍。",
    ),
    "swapping": (
        "主机内存已满，机器在用交换分区",
        "减少数据加载进程，少缓存一些数据，或者租更大的内存。",
        "交换流量停止，每步不再越跑越慢。",
    ),
    "disk_slow": (
        "任务在等磁盘",
        "训练前把数据集拷到本地 NVMe 盘，或者把小文件打包成大文件。",
        "进程不再等磁盘（iowait 下降）。",
    ),
    "numa_remote": (
        "进程跑在离显卡较远的那颗 CPU 上",
        "把每个进程绑到它的显卡所在的 CPU（numactl --cpunodebind=N --membind=N，或 torchrun 的 --numa-binding）；放得下时让任务只用同一颗 CPU 下的显卡。",
        "gpumon topo 显示的 NUMA 节点（离显卡近的那半边机器）与进程允许使用的 CPU 一致。",
    ),
    "rank0_busy": (
        "第一个进程独自保存、记日志或做评估时，所有显卡每隔一段就要等一次",
        "降低保存频率，改为后台保存或让每个进程保存自己的部分（分布式检查点），并用所有显卡做评估。",
        "停顿变短或变少。",
    ),
    "memory_nearly_full": (
        "显存快满了",
        "把批次或序列长度调小一点，或设 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True：显存到顶时分配会停顿，下一个更长的样本就会让任务退出。",
        "显存留有百分之几的余量。",
    ),
    "memory_imbalance": (
        "有一张卡的显存占用远高于其他卡，限制了所有卡的批次",
        "检查只有第一个进程才有的东西（评估数据、第二个模型、加载时没写 map_location 的张量）。",
        "各卡显存占用只差百分之几。",
    ),
    "power_limited": (
        "显卡的功率上限低于默认值，跑不到全速",
        "速度会低于公布的数值（一半功率仍有一半多一点的速度）。请问管理员这个上限是不是有意设的。",
        "功率上限恢复为显卡的默认值。",
    ),
    "cards_hot": (
        "显卡因为过热而降速",
        "检查风道、风扇、灰尘和进风温度；显卡之间空出一个槽；修好之前先调低功率上限。",
        "负载下 gpumon_gpu_throttled 的温度原因归零。",
    ),
    "link_narrow": (
        "有显卡的 PCIe 链路比显卡和插槽应有的更窄或更慢",
        "重新插好显卡和转接线，检查插槽的走线和 BIOS 里该插槽的设置；更换转接线。这是在负载下判断的：空闲的显卡会降低链路速度来省电。",
        "负载下 gpumon topo 显示的当前宽度和代数与最大值一致。",
    ),
    "chipset_slot": (
        "有显卡插在芯片组的插槽上，与硬盘和网卡共用一条链路",
        "把显卡移到 CPU 直连的插槽，或者不要把它和其他卡一起出租。",
        "gpumon topo 不再显示这张卡上方有共用的芯片组链路。",
    ),
    "uplink_contention": (
        "几个租户的任务在同一条共用链路上相遇，互相拖慢",
        "让数据交换多的任务用同一个交换芯片下的显卡，其他租户的任务用另一个下面的。gpumon topo 会显示分组。",
        "这条链路的 gpumon_pcie_uplink_saturation_ratio 下降。",
    ),
    "history_read_only": (
        "gpumon 无法写入历史",
        "检查 /var/lib/gpumon 的剩余空间和属主；如果文件损坏，移走它并重启 gpumon。在此之前运行情况不会被记住，也无从比较。",
        "下一次运行之后，这个发现项消失。",
    ),
}
