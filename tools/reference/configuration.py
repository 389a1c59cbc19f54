"""docs/configuration.md, from the table of settings."""

from __future__ import annotations

import json

from gpumon.config.load import DEFAULT_PATH
from gpumon.config.settings import SECTION_HELP, SETTINGS
from tools.reference.table import table

_HEAD = f"""\
# Configuration

Written by `make docs` from `gpumon/config/settings.py`; a test compares.

gpumon needs no configuration. What it is told comes from three places, the later over the earlier: the file
(`--config FILE`, else `GPUMON_CONFIG`, else `{DEFAULT_PATH}` if it exists), the environment, the command line
(`--listen`, `--web.config.file`). `gpumon check-config FILE` names every mistake at once, each with its place, its
value and what is allowed; a daemon with a mistake in its configuration does not start. `systemctl reload gpumon`
(SIGHUP) rereads the file, the web-config file and the tenants' tokens; a file with a mistake is told in the log and
changes nothing. `http.listen` and whether there is TLS at all change with a restart only.

Durations carry their unit: `500ms`, `30s`, `5m`, `2h`. Shares are from 0 to 1. The complete file with every default is
`config.example.toml`.
"""

_REST = """\
## Tenants

A closed list of tenants, and ordered rules that say whose job a job is. The first rule whose every pattern matches
decides; a job that no rule matches is `unassigned`. `gpumon tenants` shows which rule caught which job.

```toml
[[tenant]]
id = "acme"                              # 1 to 40 of a-z 0-9 _ . -; becomes the label `tenant`
token_file = "/etc/gpumon/acme.token"    # opens this tenant's jobs on the page and the API, and nothing else

[[rule]]
tenant = "acme"
namespace = "acme-prod"
```

| pattern of a rule | matches |
| --- | --- |
| `container_label` | `"key=value"`: a container label and its whole value |
| `container_name` | a regular expression, searched in the container's name |
| `namespace` | the Kubernetes namespace |
| `slurm_account` | the Slurm account |
| `unix_user` | the user of the job's processes |
| `cgroup` | a regular expression, searched in the control group's path |

## Targets of notifications

`[[notify.target]]` tables name robots, addresses and hooks for messages without any other service; each with its keys
stands at the end of `config.example.toml`.

## Passwords and TLS

`http.web_config_file` names a file in the format that Prometheus exporters share:

```yaml
tls_server_config:
  cert_file: gpumon.crt            # paths are relative to this file; changed files are reread by themselves
  key_file: gpumon.key
  client_ca_file: ca.crt           # optional: certificates of clients
  client_auth_type: RequireAndVerifyClientCert   # NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert
  min_version: TLS13               # TLS12, TLS13
basic_auth_users:
  prometheus: $2y$10$...           # a bcrypt hash: htpasswd -nB prometheus
```

A key that gpumon does not know is an error, so that nobody relies on one without effect. The user `gpumon` must be able
to read the files: `chown root:gpumon`, mode 0640.

## Other variables

| variable | meaning |
| --- | --- |
| `GPUMON_CONFIG` | the configuration file |
| `GPUMON_CONTROL` | the control socket of `gpumon release` |
| `GPUMON_SYSFS_ROOT`, `GPUMON_PROCFS_ROOT` | where sysfs and procfs are mounted, if elsewhere |
"""


def configuration_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for section, about in SECTION_HELP.items():
        rows = [
            (f"`{setting.key}`", f"`{json.dumps(setting.default)}`", setting.help, f"`{setting.variable}`")
            for setting in SETTINGS
            if setting.section == section
        ]
        parts.append(f"## [{section}]\n\n{about}\n\n{table(('setting', 'default', 'meaning', 'variable'), rows)}\n")
    return "\n".join([*parts, _REST])
