"""The web-config file: TLS and basic auth in the format that Prometheus exporters share (exporter-toolkit).

Read are `tls_server_config` (cert_file, key_file, client_ca_file, client_auth_type, min_version) and
`basic_auth_users`. A key that would be silently without effect here is refused, so that nobody relies on it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from gpumon.export.tls import TlsSettings
from gpumon.model.errors import ConfigError

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
# RequestClientCert and RequireAnyClientCert take certificates that nobody checked: no protection, so not offered.
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_TLS_KEYS = ("cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version")
_SECTIONS = ("tls_server_config", "basic_auth_users")
_BCRYPT = re.compile(r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A checked web-config file."""

    tls: TlsSettings | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)  # name -> bcrypt hash


def load_web_config(path: str) -> WebConfig:
    """Return the checked file. Raises ConfigError with every mistake in it."""
    try:
        text = Path(path).read_text("utf-8")
        document = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError((f"{path}: cannot be read: {error.strerror or error}",)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError((f"{path}: is no valid YAML: {' '.join(str(error).split())}",)) from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError((f"{path}: must be a mapping with {' and '.join(_SECTIONS)}",))
    problems = [
        f"{path}: {key} is not supported; supported are {', '.join(_SECTIONS)}"
        for key in document
        if key not in _SECTIONS
    ]
    tls = _tls(document.get("tls_server_config"), Path(path), problems)
    users = _users(document.get("basic_auth_users"), path, problems)
    if tls is not None and not problems:
        try:
            tls.context()
        except OSError as error:
            problems.append(f"{path}: tls_server_config: certificate, key or CA cannot be used: {error}")
    if problems:
        raise ConfigError(tuple(problems))
    return WebConfig(tls, users)


def _tls(section: object, file: Path, problems: list[str]) -> TlsSettings | None:
    if section is None:
        return None
    place = f"{file}: tls_server_config"
    if not isinstance(section, dict):
        problems.append(f"{place}: must be a mapping with cert_file and key_file")
        return None
    before = len(problems)
    problems += [
        f"{place}: {key} is not supported; supported are {', '.join(_TLS_KEYS)}"
        for key in section
        if key not in _TLS_KEYS
    ]
    files: dict[str, Path] = {}
    for key in ("cert_file", "key_file", "client_ca_file"):
        value = section.get(key)
        if isinstance(value, str) and value:
            files[key] = file.parent.absolute() / value
        elif value is not None or key != "client_ca_file":
            problems.append(f"{place}: {key} = {value!r} must be a file path")
    auth = section.get("client_auth_type", "NoClientCert")
    version = section.get("min_version", "TLS12")
    if auth not in _CLIENT_AUTH:
        problems.append(f"{place}: client_auth_type = {auth!r} must be one of {', '.join(_CLIENT_AUTH)}")
    elif auth != "NoClientCert" and "client_ca_file" not in files:
        problems.append(f"{place}: client_auth_type = {auth!r} needs client_ca_file")
    if version not in _VERSIONS:
        problems.append(f"{place}: min_version = {version!r} must be one of {', '.join(_VERSIONS)}")
    if len(problems) > before:
        return None
    return TlsSettings(
        files["cert_file"], files["key_file"], files.get("client_ca_file"), _CLIENT_AUTH[auth], _VERSIONS[version]
    )


def _users(section: object, path: str, problems: list[str]) -> dict[str, bytes]:
    if section is None:
        return {}
    if not isinstance(section, dict):
        problems.append(f"{path}: basic_auth_users: must be a mapping of names to bcrypt hashes")
        return {}
    users: dict[str, bytes] = {}
    for name, value in section.items():
        if not isinstance(name, str) or not name or ":" in name:
            problems.append(f"{path}: basic_auth_users: name {name!r} must be text without a colon")
        elif not isinstance(value, str) or not _BCRYPT.fullmatch(value):
            # The value is not shown: it may be a password written in by mistake.
            problems.append(f"{path}: basic_auth_users: {name}: must be a bcrypt hash ($2y$..., as htpasswd -B makes)")
        else:
            users[name] = value.encode()
    return users
