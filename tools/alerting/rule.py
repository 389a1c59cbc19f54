"""One alerting rule, and the phrases of PromQL and of Prometheus's templates that many rules share.

Three things hold in every rule:

- A missed scrape is no answer. Expressions look back over ranges (`..._over_time`, `rate`), so that an alert neither
  ends nor begins anew because a few scrapes are missing; `keep_firing_for` bridges what is longer, until GpumonDown
  fires and mutes the node's alerts.
- A restart of Prometheus is no event. It restores the waiting time only of rules with `for` of ten minutes or more
  (--rules.alert.for-grace-period), and Alertmanager takes an alert for resolved after four minutes of silence. So
  `for` is either at most two minutes or at least ten, and durations come from ranges where they can.
- Every aggregation names the labels it keeps, so that the label set of an alert is known, whatever a target carries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

JOB = "instance, gpu_job, tenant"
CARD = "instance, gpu, uuid"

# Long enough for six missed scrapes at 30 s and for GpumonDown, which takes five minutes, to fire first.
KEEP = "10m"
# An alert that mutes another must outlast it: else the consequence is told when its reason is over, after the cure.
# A class ends within 14 minutes of its cure, a hang within 24, what explains a class within 27.
KEEP_HUNG, KEEP_REASON, KEEP_LOST = "20m", "25m", "40m"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alerting rule. Its labels are those of the aggregation, `severity`, `audience` and `labels`."""

    alert: str
    audience: str
    severity: str
    expr: str
    seen: str  # what was seen, in numbers: start of the description, in Prometheus's template language
    seen_zh: str
    hold: str = ""  # `for`
    keep: str = KEEP  # `keep_firing_for`; "" where the expression itself looks back far enough
    labels: dict[str, str] = field(default_factory=dict)
    text: str = ""  # key of the texts where it is not the alert's name
    finding: str = ""  # a row of the catalogue, which then has the words


def own(metric: str, *matchers: str) -> str:
    """Return the selector of a job's series, without those whose tenant a scrape has renamed: they lie about it."""
    return "gpumon_" + metric + "{" + ",".join([*matchers, 'exported_tenant=""']) + "}"


def asked(query: str, labels: tuple[str, ...], form: str, before: str, after: str) -> str:
    """Return a sentence of a template around the first result of a query; nothing where there is none.

    Args:
        query: PromQL with {label} for each of the alert's labels that it needs, written as label="{label}".
        form: a printf verb. `before` and `after` may use the result too, as `.`.
    """
    for label in labels:
        query = query.replace(f'"{{{label}}}"', "%q")
    query = query.replace('"', '\\"')
    arguments = " ".join(f"$labels.{label}" for label in labels)
    begin = f'{{{{ with printf "{query}" {arguments} | query }}}}'
    return f'{begin}{before}{{{{ . | first | value | printf "{form}" }}}}{after}{{{{ end }}}}'


def templated(text: str) -> str:
    """Return a text with {label} turned into Prometheus's template language."""
    return text.replace("{", "{{ $labels.").replace("}", " }}")
