"""The sentences of a plan, English and Chinese: verdict, remedies, signals. Figures are put in as finished text."""

from __future__ import annotations

from typing import Literal

from gpumon.plan.layouts import Layout
from gpumon.plan.request import Strategy

Language = Literal["en", "zh"]

SENTENCES: dict[str, tuple[str, str]] = {
    "fits": (
        "Fits: {need} of {capacity} on the fullest card, {spare} to spare.",
        "装得下：最满的一张卡用 {need} / {capacity}，余 {spare}。",
    ),
    "tight": (
        "Fits, but tightly: {need} of {capacity} on the fullest card. A longer sample or a fragmented heap ends it.",
        "勉强装得下：最满的一张卡用 {need} / {capacity}。样本稍长或显存碎片就会溢出。",
    ),
    "asked_does_not_fit": (
        "Does not fit as {layout}: the fullest card needs {need} and has {capacity}; {other} fits.",
        "按 {layout} 装不下：最满的一张卡需要 {need}，只有 {capacity}；{other} 装得下。",
    ),
    "layout": (
        "Best layout: {layout}.",
        "最佳切分方式：{layout}。",
    ),
    "advised_against": (
        "Advised against: {layout} waits for links {share} of the time, over {path}.",
        "不建议：{layout} 有 {share} 的时间在等链路（经 {path}）。",
    ),
    "rent_none": (
        "Do not rent these cards for this job as asked.",
        "按这个需求，不要租这些卡。",
    ),
    "load": (
        " for {requests} requests in flight",
        "{requests} 个并发请求下，",
    ),
    "worth": (
        "Worth it: {cards} do the work of {equal} ({low} to {high}){load}.",
        "划算：{load}{cards} 相当于 {equal} 张的算力（{low} 到 {high}）。",
    ),
    "partly_worth": (
        "Partly worth it: {cards} do the work of {equal} ({low} to {high}){load}.",
        "部分划算：{load}{cards} 相当于 {equal} 张的算力（{low} 到 {high}）。",
    ),
    "not_worth": (
        "Not worth it: {cards} do the work of {equal} ({low} to {high}){load}; you pay for {cards}.",
        "不划算：{load}{cards} 只相当于 {equal} 张的算力（{low} 到 {high}），却要付 {cards} 的钱。",
    ),
    "slower": (
        "Adding cards makes it slower: {fewer} give more than {cards}.",
        "加卡降速：{fewer} 比 {cards} 还快。",
    ),
    "lone_stream": (
        "One user sees {rate} tokens per second ({alone} on one card with enough memory).",
        "单个用户每秒约 {rate} 个词元（显存足够的单卡为 {alone}）。",
    ),
    "layer_split": (
        "A layer split does not speed up one stream: each token passes the cards one after the other.",
        "按层切分不会让单个请求变快：每个词元要依次经过各张卡。",
    ),
    "platform_yes": (
        "An NVLink platform is the answer here: {reasons}.",
        "应当选用 NVLink 平台：{reasons}。",
    ),
    "platform_already": (
        "These cards are an NVLink platform; it is needed here: {reasons}.",
        "这些卡本身就是 NVLink 平台，而且确实需要：{reasons}。",
    ),
    "platform_no": (
        "No NVLink platform needed: none of the three signals applies.",
        "不需要 NVLink 平台：三个信号都不成立。",
    ),
    "accumulate": (
        "Accumulate gradients over {amount} micro-batches (with no_sync): efficiency {before} -> {after}.",
        "梯度累积 {amount} 个微批次（配合 no_sync）：效率 {before} -> {after}。",
    ),
    "larger_batch": (
        "Raise the batch to {amount} for each card, it still fits: efficiency {before} -> {after}.",
        "把每卡批大小提到 {amount}，仍装得下：效率 {before} -> {after}。",
    ),
    "other_layout": (
        "Use {layout} instead: {rate} ({change}).",
        "改用 {layout}：{rate}（{change}）。",
    ),
    "one_user": (
        "For a single user {layout} is fastest: {lone} tokens per second for each request.",
        "若只服务单个用户，{layout} 最快：每个请求每秒 {lone} 个词元。",
    ),
    "fewer_cards": (
        "{layout} already give {rate} ({change}): {amount} less to pay.",
        "{layout} 已有 {rate}（{change}）：可少付 {amount}。",
    ),
    "more_cards": (
        "{amount} of these cards hold it, as {layout}, {need} a card.",
        "{amount} 张这种卡按 {layout} 可以装下，每卡 {need}。",
    ),
    "recompute": (
        "Recompute activations: {layout}, {need} a card, {rate}.",
        "启用激活重计算：{layout}，每卡 {need}，{rate}。",
    ),
    "adam8bit": (
        "8-bit optimizer and recomputed activations: {layout}, {need} a card, {rate}.",
        "8 位优化器加激活重计算：{layout}，每卡 {need}，{rate}。",
    ),
    "lora": (
        "LoRA instead of full training: {layout}, {need} a card, {rate}.",
        "改用 LoRA：{layout}，每卡 {need}，{rate}。",
    ),
    "qlora": (
        "QLoRA, a 4-bit base model: {layout}, {need} a card, {rate}.",
        "改用 QLoRA（4 位底座）：{layout}，每卡 {need}，{rate}。",
    ),
    "quantise": (
        "Weights in {amount} bit: {layout}, {need} a card, {rate}.",
        "权重量化到 {amount} 位：{layout}，每卡 {need}，{rate}。",
    ),
    "measure": (
        "Measure before renting for long: nodes like this carry {low} to {high} a card. Give yours with --bandwidth.",
        "长租之前先实测：同类节点每卡 {low} 到 {high} 不等。测得后用 --bandwidth 给出。",
    ),
    "nothing_fits": (
        "Does not fit on {cards}: even {layout}, the most frugal layout, needs {need} a card of {capacity}.",
        "{cards} 装不下：最省显存的 {layout} 每卡也需要 {need}，而卡上只有 {capacity}。",
    ),
    "asked_layout": (
        "{layout} is a good layout here.",
        "{layout} 适合这里。",
    ),
    "asked_slower": (
        "{layout} works, but {other} gives {change}.",
        "{layout} 可行，但 {other} 为 {change}。",
    ),
    "advised_other": (
        "Advised against: {layout} waits for links {share} of the time, over {path}; {other} gives {change}.",
        "不建议：{layout} 有 {share} 的时间在等链路（经 {path}）；{other} 为 {change}。",
    ),
    "link_bound": (
        "Links rule it: {layout}, the best that fits, waits for them {share} of the time, over {path}.",
        "受链路限制：装得下的最佳方式 {layout} 仍有 {share} 的时间在等链路（经 {path}）。",
    ),
    "rent_one": (
        "Rent 1 card.",
        "租 1 张卡即可。",
    ),
    "rent_all": (
        "Rent {most}: fewer give no more for the money.",
        "租 {most}：更少的卡也不会更划算。",
    ),
    "rent_needed": (
        "All {most} are needed: fewer do not hold it.",
        "{most} 缺一不可：再少就装不下。",
    ),
    "rent_fewer": (
        "Rent {enough}: more cards add less than 5 % throughput.",
        "租 {enough}：再加卡，吞吐提升不到 5%。",
    ),
    "rent_value": (
        "{most} give the most throughput, {value} the most work for the money.",
        "{most} 吞吐最高，{value} 性价比最高。",
    ),
    "fewer_requests": (
        "At most {amount} requests in flight: fits as {layout}, {need} a card.",
        "并发请求降到 {amount}：按 {layout} 装得下，每卡 {need}。",
    ),
    "platform": (
        "An NVLink platform that holds it: {amount}x {card}, as {layout}, {need} a card, {rate}.",
        "能装下的 NVLink 平台：{amount}x {card}，{layout}，每卡 {need}，{rate}。",
    ),
    "signal_heavy_and_too_large": (
        "does not fit on one card, and communication-heavy (waits for links {share} of the time)",
        "单卡装不下，且通信重（{share} 的时间在等链路）",
    ),
    "signal_full_training_70b": (
        "full training of the 70B class ({states} of weights, gradients and optimizer)",
        "70B 级全参训练（权重、梯度、优化器共 {states}）",
    ),
    "signal_beyond_one_node": (
        "more than {node} cards at high bandwidth (network between nodes: {share} of the computing time), "
        "so the network is chosen first",
        "超过 {node} 张卡且带宽需求高（节点间网络占计算时间 {share}），要先选网络",
    ),
}

# The same in a word or two, for tiles and headlines.
SHORT: dict[str, tuple[str, str]] = {
    "fits": ("Yes", "装得下"),
    "tight": ("Barely", "勉强"),
    "asked_does_not_fit": ("Not as {brief}", "{brief} 装不下"),
    "nothing_fits": ("No", "装不下"),
    "layout": ("{brief}", "{brief}"),
    "asked_layout": ("{brief}", "{brief}"),
    "asked_slower": ("{better} is better", "{better} 更好"),
    "advised_against": ("Not {brief}", "不用 {brief}"),
    "advised_other": ("{better}, not {brief}", "用 {better}，不用 {brief}"),
    "link_bound": ("{brief}, link-bound", "{brief}，受链路限制"),
    "rent_none": ("None", "不租"),
    "rent_one": ("1 card", "1 张卡"),
    "rent_all": ("{most}", "{most}"),
    "rent_needed": ("{most}, all needed", "{most}，缺一不可"),
    "rent_fewer": ("{enough} are enough", "{enough} 足够"),
    "rent_value": ("{value} for the money", "{value} 性价比最高"),
    "worth": ("{equal} of {paid} cards", "{paid} 张得 {equal} 张"),
    "partly_worth": ("{equal} of {paid} cards", "{paid} 张得 {equal} 张"),
    "not_worth": ("{equal} of {paid} cards", "{paid} 张得 {equal} 张"),
    "slower": ("Slower than {fewer}", "比 {fewer} 还慢"),
    "lone_stream": ("{rate} tokens/s", "{rate} 词元/秒"),
    "layer_split": ("No faster", "不会变快"),
    "platform_no": ("Not needed", "不需要"),
    "platform_yes": ("Yes, NVLink", "需要 NVLink"),
    "platform_already": ("It is one", "已经是"),
}

PATHS = {
    "host": ("host memory (PCIe without P2P)", "主机内存（PCIe，无 P2P）"),
    "p2p": ("PCIe with P2P", "PCIe P2P"),
    "nvlink": ("NVLink", "NVLink"),
    "network": ("the network between nodes", "节点间网络"),
    "host_copy": ("copies to and from host memory", "与主机内存之间的拷贝"),
}


def say(key: str, language: Language, **figures: str) -> str:
    """Return the sentence of that key with its figures."""
    return SENTENCES[key][0 if language == "en" else 1].format(**figures)


def say_shortly(key: str, language: Language, **figures: str) -> str:
    """Return the same in a word or two."""
    return SHORT[key][0 if language == "en" else 1].format(**figures)


def path_name(path: str, language: Language) -> str:
    """Return the way between cards in words."""
    return PATHS[path][0 if language == "en" else 1]


def cards_name(count: float, language: Language) -> str:
    """Return a number of cards in words; a fraction is how many cards' work."""
    number = f"{count:.0f}" if float(count).is_integer() else f"{count:.1f}"
    if language == "zh":
        return f"{number} 张卡"
    return f"{number} card" if number == "1" else f"{number} cards"


def layout_name(layout: Layout, trains: bool, language: Language) -> str:
    """Return a layout in the words of the trade, with its cards."""
    brief = brief_name(layout, trains, language)
    if layout.strategy in (Strategy.TP, Strategy.PP) or (layout.strategy is Strategy.DDP and not trains):
        return brief
    if layout.cards == 1 and layout.strategy is not Strategy.OFFLOAD:
        return brief
    return f"{brief}，{layout.cards} 张卡" if language == "zh" else f"{brief} on {cards_name(layout.cards, 'en')}"


def brief_name(layout: Layout, trains: bool, language: Language) -> str:
    """Return a layout in a word or two."""
    strategy, zh = layout.strategy, language == "zh"
    if layout.cards == 1 and strategy is not Strategy.OFFLOAD:
        return "单卡" if zh else "one card"
    if strategy is Strategy.DDP and not trains:
        return f"{layout.cards} 份独立副本" if zh else f"{layout.cards} replicas"
    if strategy in (Strategy.TP, Strategy.PP):
        name = f"{strategy.value.upper()}{layout.group}"
        if layout.copies == 1:
            return name
        return f"{name} × {layout.copies} 份" if zh else f"{layout.copies} copies of {name}"
    if strategy is Strategy.OFFLOAD:
        return "CPU 卸载" if zh else "CPU offload"
    return str(strategy.value).upper().replace("ZERO", "ZeRO-")
