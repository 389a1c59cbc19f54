"""One thing that is wrong now, about one job, card or node: what the notifications watch, whatever comes of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds at a tick. Equal conditions of two ticks are one alert."""

    alert: str  # a name of CONTRACT's list
    severity: str  # info, warning, critical
    audience: str  # customer, operator
    tenant: str = ""  # of the job; "" for what is about a card or the node
    gpu_job: str = ""
    gpu: str = ""  # index, for people
    uuid: str = ""
    xid: str = ""
    finding: str = ""
    job_class: str = ""  # the class it tells, or is the reason for
    text: str = ""  # key of the words where it is not the alert's name

    @property
    def key(self) -> str:
        """What names this alert on this node, also after a restart."""
        return "/".join((self.alert, self.audience, self.tenant, self.gpu_job, self.uuid, self.xid, self.finding))

    @property
    def group(self) -> tuple[str, str, str]:
        """Alerts that are told together: those of one job, or the node's."""
        return (self.audience, self.tenant, self.gpu_job)
