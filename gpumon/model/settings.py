"""Settings that change what is sampled and judged. Parsed and checked by `config`; here only types and defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How often the hardware is asked. Seconds."""

    process_interval_s: float = 3.0  # each listing holds a driver lock for about 4.5 ms
    driver_budget_ratio: float = 0.05  # share of each second that may be spent inside NVML calls
    cpu_budget_ratio: float = 0.03  # of one core
    expected_gpus: int = 0  # 0: the most seen since the start or in the last week
    environ: bool = True  # read allow-listed variables where permitted
    driver: bool = True  # False: the driver's library is never loaded, no device file opened
    exit_after_failures: int = 0  # failed tries in a row to open the driver that end the daemon; 0: it waits


@dataclass(frozen=True, slots=True)
class TenantRule:
    """One ordered rule: the first whose every given pattern matches decides."""

    tenant: str
    container_label: tuple[str, str] | None = None  # key, exact value
    container_name: re.Pattern[str] | None = None
    namespace: str = ""
    slurm_account: str = ""
    unix_user: str = ""
    cgroup: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """The closed list of tenants and the rules that fill them."""

    tenants: tuple[str, ...] = ()
    rules: tuple[TenantRule, ...] = ()


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is remembered of earlier runs. The folder is "" for the service's own state directory."""

    folder: str = ""
    retention_s: float = 180 * 86400.0
    most_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Where jobs may say what they do. "" and False: nowhere."""

    socket: str = ""
    folder: str = ""
    servers: bool = False

    @property
    def wanted(self) -> bool:
        """True when there is anything to listen to."""
        return bool(self.socket or self.folder or self.servers)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the pure part of gpumon needs to know."""

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    tenants: TenantSettings = field(default_factory=TenantSettings)
    max_jobs: int = 256  # series beyond are dropped and counted
    workload_salt: str = ""  # per installation: makes hashes of command lines useless elsewhere
