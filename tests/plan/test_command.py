"""`gpumon plan` as people call it: exit codes, one sentence for each mistake, three forms of output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumon.cli.main import main

LORA = ["plan", "--model", "7B", "--card", "rtx4090", "--gpus", "4", "--method", "lora", "--recompute"]
FULL_70B = ["plan", "--model", "70B", "--card", "rtx5090", "--gpus", "8"]


def test_a_plan_that_fits_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    """The text answers the four questions in its first lines and the exit code is 0."""
    assert main(LORA) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "7B (generic shape), LoRA, bf16, on 4x GeForce RTX 4090"
    top = "\n".join(lines[2:8])
    for start in ("[ok] Fits:", "[ok] Best layout: DDP on 4 cards.", "[ok] Rent 4 cards", "[ok] Worth it: 4 cards do"):
        assert start in top


def test_a_plan_that_does_not_fit_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    """70B full training on 8x RTX 5090 ends with 1 and says what would fit."""
    assert main(FULL_70B) == 1
    out = capsys.readouterr().out
    assert "[NO] Does not fit on 8x GeForce RTX 5090" in out
    assert "LoRA instead of full training" in out
    assert "An NVLink platform that holds it" in out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["--card", "rtx9999"], "--card 'rtx9999' is not known; use one of"),
        (["--model", "gpt-9"], "--model 'gpt-9' is not known; use a parameter count such as 7B, or one of"),
        (["--model", "900T"], "--model '900T' is out of range; use 1M to 10T parameters."),
        (["--gpus", "0"], "--gpus 0 is out of range; use 1 to 1024."),
        (["--gpus", "four"], "--gpus 'four' is not a whole number"),
        (["--method", "magic"], "--method 'magic' is not known; use full, lora, qlora or inference."),
        (["--strategy", "dp"], "--strategy 'dp' is not known; use ddp, tp, pp,"),
        (["--strategy", "tp", "--gpus", "7"], "does not divide the 32 attention heads of 7B (generic shape); use 1"),
        (["--strategy", "pp", "--gpus", "64"], "needs a layer for each and 7B (generic shape) has 35; use 1 to 35."),
        (["--strategy", "ep"], "needs a mixture of experts and 7B (generic shape) is dense"),
        (["--strategy", "tp", "--group", "3"], "in groups of 3 does not divide 4 cards; use a group of 1, 2 or 4."),
        (["--group", "2"], "--group 2 needs a strategy it belongs to; add --strategy tp or pp."),
        (["--strategy", "ddp", "--group", "2"], "--strategy ddp has no groups"),
        (["--method", "inference", "--strategy", "zero3"], "which inference does not have; use ddp (replicas), tp, pp"),
        (["--method", "inference", "--model", "sdxl"], "Stable Diffusion XL is not one; run one copy on each card"),
        (["--model", "sdxl", "--strategy", "tp"], "needs equal transformer layers"),
        (["--precision", "int4"], "--precision int4 is not a training precision; use bf16, fp16 or fp32"),
        (["--card", "rtx2080ti", "--precision", "bf16"], "2080 Ti has no bf16; use --precision fp16 or fp32."),
        (["--nvlink", "on"], "GeForce RTX 4090 has no NVLink; use --nvlink off."),
        (["--p2p", "maybe"], "--p2p 'maybe' is not known; use on or off."),
        (["--pcie", "7x16"], "--pcie '7x16' is not a slot; use generation x lanes"),
        (["--pcie", "4x3"], "--pcie has 3 lanes; use 1, 2, 4, 8 or 16."),
        (["--bandwidth", "fast"], "--bandwidth 'fast' is not a rate; use a number and GB/s, MB/s or Gbit/s."),
        (["--bandwidth=-1GB/s"], "--bandwidth -1e+09 is not possible; use a number above 0."),
        (["--price", "free"], "--price 'free' is not a number"),
        (["--context", "100", "--output-tokens", "100"], "no room for a prompt in --context 100; use less than 100"),
        (["--format", "pdf"], "--format 'pdf' is not known; use text, json or html."),
        (["--lang", "fr"], "--lang 'fr' is not known; use en or zh."),
        (["--out", "/nonexistent/plan.txt"], "cannot be written (No such file or directory)"),
        (["--learned", "/nonexistent"], "--learned '/nonexistent' cannot be read"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence(capsys: pytest.CaptureFixture[str], changes: list[str], sentence: str) -> None:
    """A mistake ends with 2 and one line on standard error: the option, its value, what is allowed."""
    words = ["--model", "7B", "--card", "rtx4090", "--gpus", "4"]
    assert main(["plan", *words, *changes]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("gpumon: plan: ")
    assert sentence in err


def test_what_is_missing_is_named_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a card the sentence names the option and shows a whole command."""
    assert main(["plan", "--model", "7B"]) == 2
    assert "plan: --card is missing; for example: gpumon plan --model" in capsys.readouterr().err


def test_json_carries_the_figures_and_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the schema, the verdict in English and Chinese, and one scaling entry for each count."""
    assert main([*LORA, "--format", "json", "--price", "0.4"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == 1
    assert answer["fits"] is True
    assert [point["gpus"] for point in answer["scaling"]] == [1, 2, 3, 4]
    assert all(sentence["text"] and sentence["text_zh"] for sentence in answer["verdict"])
    assert answer["chosen"]["memory"]["total_bytes"] < 24e9
    assert answer["chosen"]["cost"]["typical"] > 0


def test_html_is_one_page_without_outside_addresses(tmp_path: Path) -> None:
    """HTML is written to the file, holds the chart inline, and loads nothing from anywhere."""
    out = tmp_path / "plan.html"
    assert main([*LORA, "--format", "html", "--out", str(out)]) == 0
    page = out.read_text("utf-8")
    assert page.count("<svg") == 2
    for outside in ("http://", "https://", "<script", "@import", "url(", "src="):
        assert outside not in page


def test_html_escapes_what_people_type(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing typed can become markup: an unknown model is refused, and a known one is escaped text."""
    assert main(["plan", "--model", "<b>7B", "--card", "rtx4090", "--gpus", "1", "--format", "html"]) == 2
    assert "'<b>7B' is not known" in capsys.readouterr().err


def test_verdict_and_remedies_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """With --lang zh verdict and advice are Chinese; the tables keep the words of the trade."""
    main([*FULL_70B, "--lang", "zh"])
    out = capsys.readouterr().out
    assert "8x GeForce RTX 5090 装不下" in out
    assert "改用 LoRA" in out


def test_rates_learned_by_a_node_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rates in topo's JSON replace the typical ones, less headers; of several sets of a size the best counts."""
    file = tmp_path / "topo.json"
    rates = [{"gpus": [0, 1], "bytes_per_second": 5e9}, {"gpus": [2, 3], "bytes_per_second": 9e9}]
    file.write_text(json.dumps({"learned_rates": rates, "cards": []}), "utf-8")
    words = ["plan", "--model", "gpt2-xl", "--card", "rtx4090", "--gpus", "2", "--strategy", "ddp"]
    main([*words, "--learned", str(file), "--format", "json"])
    bandwidth = json.loads(capsys.readouterr().out)["bandwidth"]
    assert bandwidth["origin"] == "learned"
    assert bandwidth["bytes_per_second"]["typical"] == pytest.approx(0.9 * 9e9)
    assert bandwidth["bytes_per_second"]["high"] == 9e9


def test_a_bandwidth_for_each_count(capsys: pytest.CaptureFixture[str]) -> None:
    """`2=20GB/s,4=1GB/s` makes four cards slower than two, and the verdict says so in Chinese as in English."""
    words = ["plan", "--model", "gpt2-medium", "--card", "rtx4090", "--gpus", "4", "--strategy", "ddp"]
    main([*words, "--bandwidth", "2=20GB/s,4=1GB/s"])
    assert "Adding cards makes it slower: 3 cards give more than 4 cards." in capsys.readouterr().out
    main([*words, "--bandwidth", "2=20GB/s,4=1GB/s", "--lang", "zh"])
    assert "加卡降速" in capsys.readouterr().out
