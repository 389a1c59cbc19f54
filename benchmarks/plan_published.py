"""Compare gpumon plan with published scaling runs: `python benchmarks/plan_published.py [TRACES]`.

TRACES is the folder with lambda_scaling.csv, by default ../shared/traces beside the project. Each efficiency is
predicted from one card's throughput and the box's bandwidth, which comes from other runs of the box; how is told in
tests/plan/published.py.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from tests.plan.published import Result, results  # noqa: E402  the project's root must be on the path first

CLOSE = 0.10


def main() -> int:
    """Print each published result beside its prediction, and the sums."""
    traces = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT.parent / "shared" / "traces"
    found = results(traces)
    rows: dict[int, list[Result]] = defaultdict(list)
    for result in found:
        rows[result.row].append(result)
        far = "" if abs(result.predicted - result.published) <= CLOSE else "  <-- off by more than 0.10"
        figures = f"predicted {result.predicted:.2f}  published {result.published:.2f}{far}"
        print(f"row {result.row:<2}  {result.name:<55} {figures}")
    errors = [abs(result.predicted - result.published) for result in found]
    close = sum(error <= CLOSE for error in errors)
    whole = sum(all(abs(one.predicted - one.published) <= CLOSE for one in group) for group in rows.values())
    print(f"\n{close} of {len(found)} results within {CLOSE}; {whole} of {len(rows)} rows at every count")
    print(f"median error {statistics.median(errors):.3f}, largest {max(errors):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
