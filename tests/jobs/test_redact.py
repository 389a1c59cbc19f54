"""Secrets on command lines are struck out wherever one is shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.jobs.redact import LONGEST, STRUCK, redacted

SECRET = "s3cr3tValue"


@pytest.mark.parametrize(
    "words",
    [
        ("vllm", "serve", "--api-key", SECRET),
        ("vllm", "serve", f"--api-key={SECRET}"),
        ("t.py", "--hf_token", SECRET),
        ("t.py", f"HF_TOKEN={SECRET}"),
        ("t.py", "--password", SECRET),
        ("t.py", "--db-passwd", SECRET),
        ("t.py", f"WANDB_API_KEY={SECRET}"),
        ("t.py", "--aws-secret-access-key", SECRET),
        ("t.py", f"s3://user:{SECRET}@host/bucket"),
        ("t.py", f"https://host/x?token={SECRET}&y=1"),
        ("curl", "-H", f"Authorization: Bearer {SECRET}"),
        ("t.py", "--auth", SECRET),
        ("t.py", f"sk-{SECRET}0123456789"),
        ("t.py", f"hf_{SECRET}"),
        ("t.py", f"ghp_{SECRET}0123456789"),
        ("t.py", f"eyJhbGciOi.{SECRET}xxxx.yyyyyyyy"),
    ],
)
def test_secrets_are_struck_out(words: tuple[str, ...]) -> None:
    """Values of secret-like options and variables, passwords in addresses and known kinds of keys."""
    line = redacted(words)
    assert SECRET not in line
    assert STRUCK in line


@pytest.mark.parametrize(
    "words",
    [
        ("python", "train.py", "--max-new-tokens", "512", "--tokenizer", "gpt2", "--lr", "1e-4"),
        ("vllm", "serve", "meta-llama/Llama-3.1-70B-Instruct", "--tensor-parallel-size", "4"),
        ("t.py", "--max_tokens=4096", "--num-key-value-heads", "8", "--author", "me"),
        ("t.py", "/data/experiments/2024-01-01/run-with-a-long-name/checkpoint-1000/model.safetensors"),
    ],
)
def test_ordinary_words_stay(words: tuple[str, ...]) -> None:
    """Names of models, paths and numbers are not secrets."""
    assert redacted(words) == " ".join(words)


def test_a_flag_after_a_secret_flag_is_shown() -> None:
    """An option without a value strikes out no option after it."""
    assert redacted(("t.py", "--use-auth", "--lr", "1")) == "t.py --use-auth --lr 1"


@given(st.lists(st.text(), max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_words_are_shown_on_one_short_line(words: list[str]) -> None:
    """Whatever the words hold, the line has no control characters and a bounded length."""
    line = redacted(words)
    assert all(char.isprintable() for char in line)
    assert len(line) <= LONGEST
