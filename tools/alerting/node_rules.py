"""Rules about cards, links, the node and gpumon itself: what the operator is told."""

from __future__ import annotations

from gpumon.model.findings import CATALOGUE, OPERATOR, FindingKind
from gpumon.notify.alerts import APPLICATION_XIDS, HARDWARE_XIDS, RECORDED_XIDS
from tools.alerting.rule import CARD, Rule

# Label names that gpumon uses and that targets are known to carry (Kubernetes discovery sets most of them).
_RENAMED = (
    ("job_gpus", "tenant"),
    ("job_gpus", "gpu_job"),
    ("gpu_up", "gpu"),
    ("gpu_up", "uuid"),
    ("job_info", "container"),
    ("job_info", "pod"),
    ("job_info", "namespace"),
    ("job_info", "user"),
    ("node_info", "hostname"),
)
# History is a finding of the node, but what it asks for is about gpumon: it has an alert of its own name.
_NAMED_FINDINGS = {"history_read_only": "GpumonHistoryReadOnly"}

# A card that is lost, or was told as lost, has an alert that says so; the error that came with the loss is in its text.
_LOST = """\
  max by (instance, uuid) (last_over_time(gpumon_gpu_up[10m])) == 0
  or
  max by (instance, uuid) (max_over_time(ALERTS{alertname="GpumonGpuLost",alertstate="firing"}[6h]))"""


def _either(*expressions: str) -> str:
    return "\nor\n".join(expressions)


def _link_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            alert="GpumonPcieSaturated",
            audience=OPERATOR,
            severity="info",
            expr=f"""\
max by ({CARD}) (
  rate(gpumon_pcie_saturated_seconds_total[15m]) / rate(gpumon_pcie_observed_seconds_total[15m])
) > 0.5""",
            seen="The link was full in {{ $value | humanizePercentage }} of the last 15 minutes.",
            seen_zh="最近 15 分钟里有 {{ $value | humanizePercentage }} 的时间链路是满的。",
            hold="10m",
        ),
        Rule(
            alert="GpumonUplinkSaturated",
            audience=OPERATOR,
            severity="info",
            # 0.8 is where the analysis counts a card's link as full (gpumon_pcie_saturated_seconds_total).
            expr="max by (instance, uplink) (avg_over_time(gpumon_pcie_uplink_saturation_ratio[15m])) > 0.8",
            seen="Over 15 minutes it carried {{ $value | humanizePercentage }} of what it can.",
            seen_zh="15 分钟里平均流量是能力的 {{ $value | humanizePercentage }}。",
            hold="10m",
        ),
        Rule(
            alert="GpumonLinkDowntrained",
            audience=OPERATOR,
            severity="warning",
            expr=f"max by ({CARD}) (avg_over_time(gpumon_pcie_link_downtrained[10m])) > 0.8",
            seen="So it has been for ten minutes.",
            seen_zh="已持续十分钟。",
            hold="10m",
            # A low generation is seen under load only: between two jobs of an hour's distance it is the same fault.
            keep="1h",
        ),
        Rule(
            alert="GpumonPcieErrors",
            audience=OPERATOR,
            severity="warning",
            # 8 replays a minute is the limit of DCGM's own health check; an uncorrected error is never normal.
            expr=_either(
                f'max by ({CARD}) (increase(gpumon_pcie_errors_total{{kind=~"nonfatal|fatal"}}[30m])) > 0',
                f"60 * max by ({CARD}) (rate(gpumon_pcie_replays_total[30m])) > 8",
            ),
            seen='{{ $value | printf "%.0f" }} uncorrected errors in 30 minutes, or replays a minute.',
            seen_zh='30 分钟内未纠正的错误数，或每分钟重发数：{{ $value | printf "%.0f" }}。',
        ),
        Rule(
            alert="GpumonNvlinkDown",
            audience=OPERATOR,
            severity="warning",
            # Compared with the card's own past: cards are sold with links that are never wired.
            expr=f"""\
  max by ({CARD}) (max_over_time(gpumon_nvlink_links{{state="active"}}[7d:15m]))
-
  max by ({CARD}) (max_over_time(gpumon_nvlink_links{{state="active"}}[10m]))
> 0""",
            seen='{{ $value | printf "%.0f" }} links fewer than before.',
            seen_zh='比以前少 {{ $value | printf "%.0f" }} 条。',
            hold="2m",
        ),
    )


def _card_rules() -> tuple[Rule, ...]:
    throttle = "gpumon_gpu_throttle_seconds_total"
    brake = f'max by ({CARD}) (rate({throttle}{{reason="hw_power_brake"}}[15m]))'
    return (
        Rule(
            alert="GpumonGpuLost",
            audience=OPERATOR,
            severity="critical",
            expr=f"max by ({CARD}) (max_over_time(gpumon_gpu_up[2m])) == 0",
            seen="UUID {{ $labels.uuid }}."
            + '{{ with printf "gpumon_gpu_xid_last_timestamp_seconds{instance=%q,uuid=%q}" $labels.instance'
            + ' $labels.uuid | query }} Last error of the driver: Xid {{ . | first | label "xid" }}.{{ end }}',
            seen_zh="UUID {{ $labels.uuid }}。"
            + '{{ with printf "gpumon_gpu_xid_last_timestamp_seconds{instance=%q,uuid=%q}" $labels.instance'
            + ' $labels.uuid | query }}驱动最近的错误：Xid {{ . | first | label "xid" }}。{{ end }}',
            hold="1m",
        ),
        Rule(
            alert="GpumonThermalThrottle",
            audience=OPERATOR,
            severity="warning",
            # The hardware's own limit is a fault from the first minute; the driver's softer one only if it lasts.
            # hw_slowdown alone is what drivers without the two finer reasons say.
            expr=_either(
                f'max by ({CARD}) (rate({throttle}{{reason="hw_thermal"}}[15m])) > 0.02',
                f'max by ({CARD}) (rate({throttle}{{reason="sw_thermal"}}[15m])) > 0.3',
                f"""\
(
    max by ({CARD}) (avg_over_time(gpumon_gpu_throttled{{reason="hw_slowdown"}}[15m])) > 0.1
  unless on (instance, uuid)
    {brake} > 0
)""",
            ),
            seen="Heat held the clock down for {{ $value | humanizePercentage }} of the last 15 minutes."
            + '{{ with printf "gpumon_gpu_temperature_celsius{instance=%q,uuid=%q,sensor=\\"gpu\\"}" $labels.instance'
            + ' $labels.uuid | query }} Now {{ . | first | value | printf "%.0f" }} °C.{{ end }}',
            seen_zh="最近 15 分钟里有 {{ $value | humanizePercentage }} 的时间因温度降频。"
            + '{{ with printf "gpumon_gpu_temperature_celsius{instance=%q,uuid=%q,sensor=\\"gpu\\"}" $labels.instance'
            + ' $labels.uuid | query }}现在 {{ . | first | value | printf "%.0f" }} °C。{{ end }}',
            hold="2m",
            keep="15m",
        ),
        Rule(
            alert="GpumonPowerBrake",
            audience=OPERATOR,
            severity="warning",
            expr=f'max by ({CARD}) (increase({throttle}{{reason="hw_power_brake"}}[15m])) > 5',
            seen='For {{ $value | printf "%.0f" }} s of the last 15 minutes.',
            seen_zh='最近 15 分钟里共 {{ $value | printf "%.0f" }} 秒。',
            keep="15m",
        ),
        *_xid_rules(),
        Rule(
            alert="GpumonEccUncorrected",
            audience=OPERATOR,
            severity="critical",
            # The second half is for errors that were there when gpumon came: they are no increase.
            expr=_either(
                f'max by ({CARD}) (increase(gpumon_gpu_ecc_errors_total{{kind="uncorrected"}}[6h])) > 0',
                f"""\
(
    max by ({CARD}) (last_over_time(gpumon_gpu_ecc_errors_total{{kind="uncorrected"}}[10m])) > 0
  unless on (instance, uuid)
    gpumon_gpu_ecc_errors_total{{kind="uncorrected"}} offset 6h
)""",
            ),
            seen='{{ $value | printf "%.0f" }} errors within six hours.',
            seen_zh='六小时内 {{ $value | printf "%.0f" }} 个错误。',
        ),
        Rule(
            alert="GpumonRowRemap",
            audience=OPERATOR,
            severity="warning",
            expr=f"max by ({CARD}) (max_over_time(gpumon_gpu_row_remap_pending[10m])) == 1",
            seen="UUID {{ $labels.uuid }}.",
            seen_zh="UUID {{ $labels.uuid }}。",
            hold="2m",
        ),
        Rule(
            alert="GpumonRowRemap",
            audience=OPERATOR,
            severity="critical",
            expr=f"max by ({CARD}) (max_over_time(gpumon_gpu_row_remap_failed[10m])) == 1",
            seen="UUID {{ $labels.uuid }}.",
            seen_zh="UUID {{ $labels.uuid }}。",
            hold="2m",
            text="GpumonRowRemap@critical",
        ),
    )


def _xid_rules() -> tuple[Rule, ...]:
    def rule(alert: str, severity: str, matcher: str, text: str = "") -> Rule:
        # Six hours from Prometheus's own memory: a restart of gpumon must not make the card look healthy.
        last = f"last_over_time(gpumon_gpu_xid_last_timestamp_seconds{{xid{matcher}}}[6h])"
        return Rule(
            alert=alert,
            audience=OPERATOR,
            severity=severity,
            expr=f"max by ({CARD}, xid) ({last}) > time() - 6 * 3600\nunless on (instance, uuid) (\n{_LOST}\n)",
            hold="1m",  # the loss of the card may be seen a moment after the error
            seen="The driver reported it last at {{ $value | humanizeTimestamp }}. UUID {{ $labels.uuid }}.",
            seen_zh="驱动最近一次报告：{{ $value | humanizeTimestamp }}。UUID {{ $labels.uuid }}。",
            keep="",
            text=text,
        )

    def codes(numbers: tuple[int, ...]) -> str:
        return "|".join(map(str, numbers))

    known = codes((*APPLICATION_XIDS, *HARDWARE_XIDS, *RECORDED_XIDS))
    return (
        rule("GpumonXidHardware", "critical", f'=~"{codes(HARDWARE_XIDS)}"'),
        rule("GpumonXidHardware", "info", f'=~"{codes(RECORDED_XIDS)}"', "GpumonXidHardware@info"),
        rule("GpumonXidUnknown", "warning", f'!~"{known}"'),
    )


def _self_rules() -> tuple[Rule, ...]:
    renamed = (
        f'count by (instance) (max_over_time(gpumon_{metric}{{exported_{label}!=""}}[10m]))'
        for metric, label in _RENAMED
    )
    return (
        Rule(
            alert="GpumonDown",
            audience=OPERATOR,
            severity="critical",
            # A target that left the list has no `up` at all, so it is compared with the last day.
            expr="""\
  max by (instance) (max_over_time(up{job="gpumon"}[1d:5m]))
unless on (instance)
  max by (instance) (max_over_time(up{job="gpumon"}[3m])) == 1""",
            seen="No scrape has succeeded for five minutes.",
            seen_zh="五分钟内没有一次采集成功。",
            hold="2m",
            keep="",
        ),
        Rule(
            alert="GpumonSamplerStale",
            audience=OPERATOR,
            severity="critical",
            expr="""\
  max by (instance) (max_over_time(gpumon_build_info[3m]))
unless on (instance)
  max by (instance) (max_over_time(gpumon_nvml_up[3m]))""",
            seen="Scrapes have brought gpumon's own series only, for five minutes.",
            seen_zh="五分钟来采集只得到 gpumon 自身的指标。",
            hold="2m",
        ),
        Rule(
            alert="GpumonSamplerOverBudget",
            audience=OPERATOR,
            severity="info",
            # Twice the default budget for driver calls, three times the one for sampling: beyond what stretching bears.
            expr=_either(
                "max by (instance) (rate(gpumon_sampler_cpu_seconds_total[30m])) > 0.1",
                "max by (instance) (rate(gpumon_driver_seconds_total[30m])) > 0.1",
            ),
            seen="{{ $value | humanizePercentage }} of a core, or of the time, over half an hour.",
            seen_zh="半小时内平均占用一个核或时间的 {{ $value | humanizePercentage }}。",
            hold="10m",
        ),
        Rule(
            alert="GpumonDriverMissing",
            audience=OPERATOR,
            severity="critical",
            # Silent where every card is handed to a virtual machine: there the host has no use for the driver.
            expr="""\
  max by (instance) (max_over_time(gpumon_nvml_up[5m])) == 0
unless on (instance) (
    max by (instance) (gpumon_node_pci_gpus{driver="vfio-pci"}) > 0
  unless on (instance)
    max by (instance) (gpumon_node_pci_gpus{driver!="vfio-pci"}) > 0
)""",
            seen="For ten minutes gpumon_nvml_up has been 0.",
            seen_zh="gpumon_nvml_up 为 0 已有十分钟。",
            hold="10m",
        ),
        Rule(
            alert="GpumonGpuMissing",
            audience=OPERATOR,
            severity="critical",
            expr="""\
  max by (instance) (max_over_time(gpumon_node_gpus_expected[5m]))
- on (instance)
  sum by (instance) (max by (instance, state) (max_over_time(gpumon_node_gpus[5m])))
- on (instance)
  max by (instance) (max_over_time(gpumon_node_pci_gpus{driver="vfio-pci"}[5m]))
> 0""",
            seen='{{ $value | printf "%.0f" }} missing.',
            seen_zh='缺 {{ $value | printf "%.0f" }} 张。',
            hold="10m",
        ),
        Rule(
            alert="GpumonLabelsRenamed",
            audience=OPERATOR,
            severity="warning",
            expr=_either(*renamed),
            seen='{{ $value | printf "%.0f" }} series are renamed.',
            seen_zh='有 {{ $value | printf "%.0f" }} 个指标被改名。',
            hold="2m",
        ),
        Rule(
            alert="GpumonNotificationsFailing",
            audience=OPERATOR,
            severity="warning",
            expr=_either(
                'max by (instance, channel) (increase(gpumon_notifications_total{result="failed"}[30m])) > 2',
                'max by (instance, channel) (increase(gpumon_notifications_total{result="dropped"}[30m])) > 0',
            ),
            seen='{{ $value | printf "%.0f" }} within half an hour.',
            seen_zh='半小时内 {{ $value | printf "%.0f" }} 次。',
        ),
    )


def _finding_rule(row: FindingKind) -> Rule:
    expr = f"""\
  max by (instance) (count_over_time(gpumon_node_finding{{finding="{row.finding}"}}[5m]))
/
  max by (instance) (count_over_time(gpumon_nvml_up[5m]))
> 0.6"""
    return Rule(
        alert=_NAMED_FINDINGS.get(row.finding, "GpumonNodeFinding"),
        audience=OPERATOR,
        severity=row.severity,
        expr=expr,
        seen=f"{row.title}.",
        seen_zh=f"{row.chinese[0]}。",
        hold="10m",
        labels={"finding": row.finding},
        finding=row.finding,
    )


def node_rules() -> tuple[Rule, ...]:
    """Return the rules in the order of the file: gpumon itself, cards, links, findings."""
    findings = tuple(_finding_rule(row) for row in CATALOGUE if row.audience == OPERATOR)
    return (*_self_rules(), *_card_rules(), *_link_rules(), *findings)
