"""The table of settings: one row drives the file, the environment, `config.example.toml` and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.config.values import Parser, boolean, duration, listen_address, one_of, path, ratio, whole


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of one section. `default` is written as it would stand in the TOML file."""

    section: str
    key: str
    parse: Parser
    default: object
    help: str  # what it does, its unit and range, and why one would change it

    @property
    def place(self) -> str:
        """The setting's name as a person writes it: section.key."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return f"GPUMON_{self.section}_{self.key}".upper()


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "http",
        "listen",
        listen_address,
        "127.0.0.1:9836",
        "Where to serve metrics and the live page: HOST:PORT, [IPV6]:PORT, or :PORT for all addresses. "
        "Loopback by default, because what is served is not protected until a web-config file is given.",
    ),
    Setting(
        "http",
        "web_config_file",
        path,
        "",
        "An exporter-toolkit style web-config file with TLS and basic auth. Empty: plain HTTP without a password.",
    ),
    Setting(
        "sampling",
        "process_interval",
        duration(1.0, 60.0),
        "3s",
        "How often the processes of each card are listed, 1s to 60s; a listing holds a driver lock for about 4.5 ms.",
    ),
    Setting(
        "sampling",
        "driver_budget_ratio",
        ratio(0.005, 0.25),
        0.05,
        "Largest share of each second spent inside driver calls, all cards together, 0.005 to 0.25. "
        "Over it, periods are stretched.",
    ),
    Setting(
        "sampling",
        "cpu_budget_ratio",
        ratio(0.005, 0.5),
        0.03,
        "Largest share of one core that sampling may use, 0.005 to 0.5. Over it, periods are stretched.",
    ),
    Setting(
        "sampling",
        "expected_gpus",
        whole(0, 64),
        0,
        "How many cards this node should have, 0 to 64. 0: the most seen since the start or, as the history remembers, "
        "in the last week. Fewer cards raise GpumonGpuMissing.",
    ),
    Setting(
        "sampling",
        "environ",
        boolean,
        True,
        "Read a short list of variables (NCCL_*, CUDA_VISIBLE_DEVICES, ranks) from processes where permitted. "
        "Nothing else of an environment is ever read.",
    ),
    Setting(
        "sampling",
        "driver",
        boolean,
        True,
        "Use the NVIDIA driver. false: its library is not loaded and no device file is opened until this is true again "
        "(SIGHUP), as after a `gpumon release` without end; host and PCI devices are still watched.",
    ),
    Setting(
        "sampling",
        "exit_after_failures",
        whole(0, 10_000),
        0,
        "End with exit code 1 after so many tries in a row that could not open the driver, 0 to 10000; a try a second "
        "at first, then one every 3 s. For containers that must be recreated to get their cards back. "
        "0: wait for the driver for ever.",
    ),
    Setting(
        "history",
        "enabled",
        boolean,
        True,
        "Remember the runs of each workload in one SQLite file, so that runs on different card counts can be compared. "
        "Command lines are kept as salted hashes only. false: nothing is written.",
    ),
    Setting(
        "history",
        "folder",
        path,
        "",
        "Where history.sqlite lies. Empty: the service's state directory, /var/lib/gpumon.",
    ),
    Setting(
        "history",
        "retention_days",
        whole(1, 3650),
        180,
        "How long a run is remembered, 1 to 3650 days.",
    ),
    Setting(
        "history",
        "max_size_mib",
        whole(1, 1024),
        64,
        "Largest size of the file in MiB, 1 to 1024; the oldest runs go first. 64 hold more than 50,000 runs.",
    ),
    Setting(
        "report",
        "socket",
        path,
        "",
        "A Unix datagram socket on which jobs may say their throughput (docs/reporting.md). Empty: none is made.",
    ),
    Setting(
        "report",
        "folder",
        path,
        "",
        "A folder with text files in which jobs may say their throughput (docs/reporting.md). Empty: none is read.",
    ),
    Setting(
        "report",
        "servers",
        boolean,
        False,
        "Ask the metrics page of vLLM, SGLang and TGI servers on loopback ports that a job's own process listens on.",
    ),
    Setting(
        "notify",
        "folder",
        path,
        "",
        "Where notify.json lies: what was told, and messages that still wait. Empty: the service's state directory, "
        "/var/lib/gpumon.",
    ),
    Setting(
        "notify",
        "repeat",
        duration(3600.0, 30 * 86400.0),
        "24h",
        "An alert that still holds after this time is told again, 1h to 720h.",
    ),
    Setting(
        "log",
        "level",
        one_of("debug", "info", "warning", "error"),
        "info",
        "Least severity that is logged: debug, info, warning or error.",
    ),
    Setting(
        "log",
        "format",
        one_of("auto", "json", "text"),
        "auto",
        "json for services, text for people; auto: text on a terminal, json elsewhere.",
    ),
)

SECTION_HELP: dict[str, str] = {
    "http": "Serving.",
    "sampling": "What the hardware is asked, and how much that may cost.",
    "history": "What is remembered of earlier runs. Changes take effect with a restart.",
    "report": "What jobs may say of their own throughput; off until switched on. Changes take effect with a restart.",
    "notify": "Messages without any other service; where to is told by [[notify.target]], at the end of this file.",
    "log": "Logs go to standard error.",
}
