"""Every class and detail has advice in both languages."""

from __future__ import annotations

import pytest

from gpumon.analysis.advice import ADVICE, for_verdict
from gpumon.model.verdict import DETAILS, JobClass

PAIRS = [(job_class, detail) for job_class in JobClass for detail in ("", *DETAILS.get(job_class, ()))]


@pytest.mark.parametrize(("job_class", "detail"), PAIRS)
def test_every_verdict_has_advice(job_class: JobClass, detail: str) -> None:
    """A sentence in English and one in Chinese, none of them empty."""
    english, chinese = for_verdict(job_class, detail)
    assert english.endswith(".")
    assert chinese.endswith("。")
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese)


def test_the_table_names_only_what_exists() -> None:
    """No row for a class or detail that the contract does not know."""
    assert set(ADVICE) <= set(PAIRS)
