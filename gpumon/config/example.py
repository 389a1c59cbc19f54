"""`config.example.toml`, written from the table of settings, so that it cannot fall behind."""

from __future__ import annotations

import textwrap

from gpumon.config.settings import SECTION_HELP, SETTINGS

_HEAD = """\
# gpumon's configuration, complete: every setting at its default. Goes to /etc/gpumon/gpumon.toml.
# Each setting can be overridden by an environment variable, named beside it. SIGHUP rereads this file;
# `gpumon check-config FILE` names all mistakes at once.
"""

_TENANTS = """\
# Tenants: a closed list, and ordered rules that say whose job a job is. The first rule whose every pattern matches
# decides; a job no rule matches is "unassigned".
#
# [[tenant]]
# id = "acme"                                # 1 to 40 of a-z 0-9 _ . -
# token_file = "/etc/gpumon/acme.token"      # opens this tenant's jobs on the page and the API, and nothing else
#
# [[rule]]
# tenant = "acme"
# container_label = "team=acme"              # a container label and its whole value
# container_name = "^acme-"                  # regular expression, searched in the container's name
# namespace = "acme-prod"                    # Kubernetes namespace
# slurm_account = "acme"
# unix_user = "acme"
# cgroup = "machine-acme"                    # regular expression, searched in the control group's path
"""

_TARGETS = """\
# Notifications: one table for each robot, address or hook. A tenant's messages go to its own targets alone; those of
# tenants without one, and all about cards and node, go to the operator's.
#
# [[notify.target]]
# tenant = "acme"                            # or owner = "operator"
# kind = "dingtalk"                          # webhook, dingtalk, feishu, wecom, apprise (needs the extra "notify")
# url_file = "/etc/gpumon/acme.robot"        # or url_env = "ACME_ROBOT": addresses are secrets
# signature_file = "/etc/gpumon/acme.sign"   # or signature_env; dingtalk and feishu
# keyword = "GPU"                            # dingtalk: the robot's keyword
# language = "zh"                            # en or zh; en
# quiet = "22:00-07:30"                      # only what is critical is sent then
# timezone = "Asia/Shanghai"
# most_per_hour = 20                         # 1 to 600
"""


def example_toml() -> str:
    """Return the commented example configuration."""
    parts = [_HEAD]
    for section, about in SECTION_HELP.items():
        lines = [f"# {about}", f"[{section}]"]
        for setting in SETTINGS:
            if setting.section == section:
                lines += [f"# {line}" for line in textwrap.wrap(setting.help, 116)]
                lines += [f"# {setting.variable}", f"{setting.key} = {_toml(setting.default)}", ""]
        parts.append("\n".join(lines))
    return "\n".join([*parts, _TENANTS, _TARGETS])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    print(example_toml(), end="")  # noqa: T201 - `make docs` writes the file from here
