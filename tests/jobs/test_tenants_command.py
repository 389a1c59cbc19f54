"""`gpumon tenants`: jobs with the rule that caught them, and routes for Alertmanager."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumon.cli import tenants as command
from gpumon.model.samples import Tick
from gpumon.model.settings import TenantRule, TenantSettings

from .node import Node, docker, tenants


def ticks(node: Node) -> Iterator[Tick]:
    while True:
        yield node.read()


def test_jobs_and_rules() -> None:
    """Each job stands on a line with its tenant, its cards and the rule that caught it."""
    node = Node(settings=tenants(TenantRule("acme", unix_user="alice")))
    node.start(100, cards=[0, 1])
    node.start(200, cgroup=docker(2), cards=[3])
    found, indices = command.look(ticks(node), node.settings)
    lines = command.table(found, indices, node.settings.tenants).splitlines()
    assert lines[0].split() == ["TENANT", "JOB", "CARDS", "KIND", "USER", "CONTAINER", "RULE"]
    assert lines[1].split()[:5] == ["acme", "session:100:10000", "0,1", "session", "alice"]
    assert lines[1].endswith("rule 1: unix_user alice")
    assert lines[2].split()[0] == "unassigned"
    assert lines[2].endswith("no rule matches")


def test_no_jobs_and_no_rules() -> None:
    """An empty node and a configuration without rules are said in a sentence."""
    node = Node()
    assert command.table((), {}, node.settings.tenants) == "No job on this node.\n"
    node.start(100, cards=[0])
    found, indices = command.look(ticks(node), node.settings)
    assert "no [[rule]]" in command.table(found, indices, node.settings.tenants)


def test_routes_for_every_tenant() -> None:
    """Every tenant has a route with exact matchers and a receiver; everything else goes to the operator."""
    text = command.alertmanager(TenantSettings(("acme", "b.c-d_1")))
    assert text.count("receiver: tenant-") == 2
    assert """- matchers: ['audience="customer"', "tenant=\\"acme\\""]""" in text
    assert text.splitlines()[1] == "  receiver: operator"
    assert "routes" not in command.alertmanager(TenantSettings())


@pytest.mark.tools
def test_alertmanager_accepts_the_routes(tmp_path: Path) -> None:
    """Alertmanager's own check accepts the configuration and routes a tenant's alert to it alone."""
    file = tmp_path / "alertmanager.yml"
    file.write_text(command.alertmanager(TenantSettings(("acme", "b.c-d_1"))))
    subprocess.run(["amtool", "check-config", str(file)], check=True, capture_output=True)

    def receiver(*labels: str) -> str:
        words = ["amtool", "config", "routes", "test", f"--config.file={file}", *labels]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    assert receiver("audience=customer", "tenant=acme") == "tenant-acme"
    assert receiver("audience=customer", "tenant=b.c-d_1") == "tenant-b.c-d_1"
    assert receiver("audience=customer", "tenant=bxc-d_1") == "operator"
    assert receiver("audience=operator", "tenant=acme") == "operator"
    assert receiver("audience=customer", "tenant=unassigned") == "operator"


def test_the_command_without_a_driver(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The routes need no driver and no node."""
    config = tmp_path / "gpumon.toml"
    config.write_text('[[tenant]]\nid = "acme"\n\n[[rule]]\ntenant = "acme"\nunix_user = "alice"\n')
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["tenants", "--config", str(config), "--format", "alertmanager"])
    assert args.run(args) == 0
    assert "tenant-acme" in capsys.readouterr().out
