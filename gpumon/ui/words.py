"""What page and report say of a verdict, in plain English and Chinese, for somebody who has never read a metric.

Keys are `class` or `class.detail`. A sentence says what the cards do, not what the reader did wrong.
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str


HEADLINES: dict[str, Words] = {
    "compute": Words("Computing: the links are not in the way", "正在计算：链路没有拖慢它"),
    "communication": Words("Waits for data between cards", "在等卡间数据"),
    "communication.bandwidth": Words(
        "Waits for data between cards: each card's own link is the limit", "在等卡间数据：瓶颈是每张卡自己的链路"
    ),
    "communication.uplink": Words(
        "Waits for data between cards: a link or memory they share is the limit",
        "在等卡间数据：瓶颈是共用的链路或主机内存",
    ),
    "communication.latency": Words(
        "Waits for many small messages between cards; the links are far from full",
        "在等大量卡间小消息，链路远未占满",
    ),
    "communication.host_path": Words(
        "Data between cards goes the slow way, through the CPU", "卡间数据绕道 CPU，走了慢路"
    ),
    "communication.straggler": Words("The other cards wait for one slow card", "其他卡都在等一张慢卡"),
    "communication.pipeline_bubble": Words(
        "Cards wait for their turn in the pipeline", "各卡在等流水线轮到自己（流水线气泡）"
    ),
    "memory": Words("Limited by the cards' own memory bandwidth", "受限于显存带宽"),
    "host": Words("Cards wait for the host", "显卡在等主机"),
    "host.input": Words("Cards wait for input data from the host", "显卡在等主机送来输入数据"),
    "host.checkpoint": Words("Cards wait while a checkpoint is written", "正在写检查点，显卡在等"),
    "host.offload": Words(
        "Cards wait for weights or optimizer state kept in host memory", "显卡在等放在主机内存里的权重或优化器状态"
    ),
    "host.launch": Words("Cards wait for the program to give them work", "显卡在等程序下发任务"),
    "throttled": Words("Cards run slower than they can", "显卡降频运行"),
    "throttled.power": Words("Slowed down by a lowered power limit", "功率上限被调低，显卡变慢"),
    "throttled.thermal": Words("Slowed down by heat", "温度过高，显卡降频"),
    "throttled.brake": Words("Slowed down by the power brake: the supply cannot keep up", "供电不足，触发功率刹车"),
    "idle": Words("Holds cards and does nothing", "占着显卡却什么都没做"),
    "hung": Words("Stuck: the cards look busy but nothing moves", "卡住了：看起来忙，其实毫无进展"),
    "unknown": Words("Not enough evidence yet", "证据还不够，暂不下结论"),
}

CLASSES: dict[str, Words] = {
    "compute": Words("compute", "计算"),
    "communication": Words("communication", "通信"),
    "memory": Words("memory", "显存"),
    "host": Words("host", "主机"),
    "throttled": Words("throttled", "降频"),
    "idle": Words("idle", "空闲"),
    "hung": Words("hung", "卡死"),
    "unknown": Words("unknown", "未知"),
}

STATES: dict[str, Words] = {
    "compute": Words("computing", "计算"),
    "overlap": Words("computing while sending", "边算边传"),
    "memory": Words("card memory", "读写显存"),
    "communication": Words("sending", "卡间传输"),
    "peer_wait": Words("waiting for a card", "等其他卡"),
    "host_wait": Words("waiting for the host", "等主机"),
    "idle": Words("idle", "空闲"),
}

# How much a class asks for attention, worst first: the order of jobs on page and report.
URGENCY: tuple[str, ...] = ("hung", "throttled", "communication", "host", "idle", "unknown", "memory", "compute")
# These hold the job back or waste the cards; the others are how a healthy job looks, or cannot be judged.
IN_TROUBLE = frozenset({"hung", "throttled", "communication", "host", "idle"})


def headline(job_class: str, detail: str | None) -> Words:
    """Return the sentence for a verdict."""
    return HEADLINES.get(f"{job_class}.{detail}") or HEADLINES[job_class]


# A headline when the others wait for some of the job's cards, with the sentence and those cards.
WAITED_FOR = Words("{} (GPU {}; the others wait)", "{}（GPU {}，其他卡在等）")
STRAGGLERS = Words("The other cards wait for GPU {}", "其他卡都在等 GPU {}")

# Texts of the live page. `{}` is filled in by the script.
PAGE: dict[str, Words] = {
    "skip": Words("Skip to jobs", "跳到任务"),
    "language": Words("中文", "English"),
    "updated": Words("updated {} s ago", "{} 秒前更新"),
    "cards_up": Words("{} of {} cards answer", "{} / {} 张卡有响应"),
    "driver": Words("driver {}", "驱动 {}"),
    "simulated": Words(
        "SIMULATED NODE: these cards and jobs do not exist. Every figure is computed.",
        "模拟节点：这些显卡和任务并不存在，所有数字都是算出来的。",
    ),
    "no_driver": Words(
        "No NVIDIA driver answers ({}). gpumon waits and starts by itself when it does.",
        "NVIDIA 驱动没有响应（{}）。gpumon 在等待，驱动就绪后会自动开始。",
    ),
    "released": Words(
        "The driver is released on request. gpumon comes back by itself.", "已按要求释放驱动，gpumon 稍后自动恢复。"
    ),
    "shared_memory": Words("shared with host", "与主机共用"),
    "stale": Words("No fresh figures: {}. What you see is old.", "没有新数据：{}。下面显示的是旧数据。"),
    "unreachable": Words("gpumon does not answer", "gpumon 没有响应"),
    "card_lost": Words("GPU {} does not answer ({}).", "GPU {} 没有响应（{}）。"),
    "cards_missing": Words("{} of {} expected cards are missing.", "应有 {1} 张卡，缺 {0} 张。"),
    "loading": Words("Waiting for the first figures …", "正在等待第一批数据 …"),
    "no_jobs": Words("No job uses these cards.", "没有任务在使用这些显卡。"),
    "not_judged": Words("{} of {} jobs cannot be judged yet", "{1} 个任务中有 {0} 个暂时无法判断"),
    "all_well": Words("No job is held back.", "没有任务被拖慢。"),
    "one_trouble": Words("1 of {} jobs needs attention", "{} 个任务中有 1 个需要关注"),
    "trouble": Words("{} of {} jobs need attention", "{1} 个任务中有 {0} 个需要关注"),
    "jobs": Words("Jobs", "任务"),
    "cards": Words("Cards and links", "显卡与链路"),
    "gpus": Words("GPU {}", "GPU {}"),
    "sure": Words("{} sure", "把握 {}"),
    "since": Words("for {}", "已持续 {}"),
    "time_now": Words("Where the time goes", "时间花在哪里"),
    "time_unknown": Words("Cannot be told apart well enough to say.", "目前分不清，不作判断。"),
    "last_minutes": Words("Last 15 minutes", "最近 15 分钟"),
    "why": Words("Why gpumon says so", "为什么这么说"),
    "against": Words("Would prove it wrong: {}", "若出现以下情况则判断有误：{}"),
    "do": Words("What to do", "怎么办"),
    "gain": Words("{} to {} times as fast", "可快 {} 到 {} 倍"),
    "fewer": Words(
        "Adding cards made it slower. {} cards ({}) would be as fast.", "加卡反而更慢。用 {} 张卡（{}）就一样快。"
    ),
    "enough": Words("{} cards ({}) reach 95 % of this speed.", "{} 张卡（{}）就能达到 95 % 的速度。"),
    "straggler": Words(
        "GPU {} keeps the others waiting ({}): costs {} of the time.", "GPU {} 让其他卡等待（{}）：损失 {} 的时间。"
    ),
    "stragglers": STRAGGLERS,
    "waited_for": WAITED_FOR,
    "job_lost": Words("A card of this job does not answer: {}", "这个任务有显卡没有响应：{}"),
    "job_lost_do": Words(
        "Without that card the job cannot go on. Tell the machine's operator; restart the job on the other cards.",
        "缺了这张卡，任务无法继续。请联系机器管理员，并在其余显卡上重启任务。",
    ),
    "jobs_of": Words("{} jobs", "{} 个任务"),
    "tenant": Words("tenant", "租户"),
    "strategy": Words("layout", "并行方式"),
    "step": Words("step", "每步"),
    "efficiency": Words("efficiency", "扩展效率"),
    "power": Words("power", "功率"),
    "memory": Words("memory", "显存"),
    "temperature": Words("temperature", "温度"),
    "utilization": Words("a kernel runs", "有内核在跑"),
    "utilization_note": Words(
        "100 % does not mean busy: waiting for data counts too", "100 % 不等于在干活：等数据也算"
    ),
    "clock": Words("clock", "频率"),
    "link": Words("link", "链路"),
    "slice": Words("slice", "分区"),
    "link_in": Words("in", "入"),
    "link_out": Words("out", "出"),
    "of": Words("{} of {}", "{} / {}"),
    "full": Words("full", "已满"),
    "not_seen": Words("not measured", "未测到"),
    "uplink": Words("Shared link {}", "共用上行链路 {}"),
    "no_uplink": Words("Cards without a known shared link", "没有已知共用链路的显卡"),
    "downtrained": Words(
        "runs below what card and slot can: x{} of x{}, gen {} of {}", "低于应有规格：x{}（应 x{}），第 {} 代（应 {}）"
    ),
    "free": Words("free", "空闲"),
    "lost": Words("no answer", "无响应"),
    "shared": Words("{} jobs", "{} 个任务"),
    "throttle_heat": Words("slowed by heat", "因过热降频"),
    "throttle_brake": Words("power brake", "功率刹车"),
    "seconds": Words("{} s", "{} 秒"),
    "minutes": Words("{} min", "{} 分钟"),
    "hours": Words("{} h", "{} 小时"),
    "days": Words("{} d", "{} 天"),
}
