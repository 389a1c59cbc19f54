"""Imports go down the rows of docs/architecture.md; the simulator shares nothing with the analysis."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "gpumon"

# Lowest row first. A package imports from lower rows only, and from itself.
ROWS: tuple[frozenset[str], ...] = (
    frozenset({"model"}),
    frozenset({"data"}),
    frozenset({"hardware"}),
    frozenset({"sampling", "recording"}),
    frozenset({"jobs", "analysis", "plan"}),
    frozenset({"scaling"}),
    frozenset({"pipeline"}),
    frozenset({"export", "ui", "notify", "history", "doctor"}),
    frozenset({"config"}),
    frozenset({"app"}),
    frozenset({"cli"}),
)
ROW = {name: number for number, row in enumerate(ROWS) for name in row}
# A third-party module and the only place that may import it.
HOMES = {"pynvml": "hardware/nvml.py", "prometheus_client": "export/", "apscheduler": "app/"}
PURE = ("jobs", "analysis", "plan", "scaling", "pipeline")
IMPURE_MODULES = {"time", "threading", "random", "logging", "structlog", "subprocess", "socket"}
INDEPENDENT_OF_ANALYSIS = "hardware/simulated/"


def _imports() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield name, node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}:{node.lineno}: relative import"
                yield name, node.lineno, node.module or ""


def _package(path: str) -> str:
    return path.split("/", 1)[0].removesuffix(".py")


def test_imports_go_down() -> None:
    """No package imports from its own row's neighbours or from above."""
    broken = []
    for path, line, module in _imports():
        source, parts = _package(path), module.split(".")
        if parts[0] != "gpumon" or len(parts) < 2 or source in {"__init__", "__main__"}:
            continue
        target = parts[1]
        if target != source and ROW[target] >= ROW[source]:
            broken.append(f"gpumon/{path}:{line} imports {module}")
    assert not broken, "\n".join(broken)


def test_third_party_modules_stay_home() -> None:
    """Each wrapped library is imported in one place only."""
    broken = [
        f"gpumon/{path}:{line} imports {module}"
        for path, line, module in _imports()
        for library, home in HOMES.items()
        if module.split(".")[0] == library and not path.startswith(home)
    ]
    assert not broken, "\n".join(broken)


def test_pure_packages_touch_nothing() -> None:
    """jobs, analysis, plan, scaling and pipeline import no clock, thread, file, log or randomness."""
    broken = [
        f"gpumon/{path}:{line} imports {module}"
        for path, line, module in _imports()
        if _package(path) in PURE and module.split(".")[0] in IMPURE_MODULES
    ]
    assert not broken, "\n".join(broken)


def test_simulator_shares_nothing_with_the_analysis() -> None:
    """The simulated node takes types from model and the reader seam, and nothing else of gpumon."""
    broken = [
        f"gpumon/{path}:{line} imports {module}"
        for path, line, module in _imports()
        if path.startswith(INDEPENDENT_OF_ANALYSIS)
        and module.startswith("gpumon.")
        and not module.startswith(("gpumon.model", "gpumon.hardware.simulated", "gpumon.hardware.reader"))
    ]
    assert not broken, "\n".join(broken)
