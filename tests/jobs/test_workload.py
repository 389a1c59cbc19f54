"""The identity of a workload: the same for any count of cards, another one for other work, silent about the words."""

from __future__ import annotations

import pytest

from gpumon.jobs.layout.command import of_program, read
from gpumon.jobs.workload import identity

SALT = "b" * 64


def _identity(text: str, folder: str = "", tenant: str = "acme", salt: str = SALT) -> str:
    words = tuple(text.split())
    return identity(of_program(words) if words[0].endswith(".py") else read(words), folder, tenant, salt)


BASE = "train.py --model_name_or_path llama-8b --per_device_train_batch_size 8 --learning_rate 1e-4"


@pytest.mark.parametrize(
    "other",
    [
        f"{BASE} --local-rank=3",
        f"{BASE} --master_port 29511 --nproc_per_node 8 --world_size 8",
        f"{BASE} --output_dir /data/run-17 --run_name second --seed 7 --logging_dir logs/2",
        f"{BASE} --tensor-model-parallel-size 4 --pipeline_parallel_size 2 --num_gpus 8",
        f"{BASE} --zero_stage 2 --deepspeed ds.json --fsdp full_shard",
        "train.py --learning_rate 1e-4 --per_device_train_batch_size 8 --model_name_or_path llama-8b",
        f"{BASE} --gradient_accumulation_steps 8 --accumulate_grad_batches 8 --grad-accum 8",
        f"{BASE} --dataloader_num_workers 8 --dataloader_pin_memory --prefetch_factor 4",
        f"./{BASE}",
    ],
)
def test_what_changes_with_the_cards_does_not_count(other: str) -> None:
    """Ports, ranks, folders, sizes of layouts, loaders and accumulation leave the identity alone, as does the order."""
    assert _identity(other) == _identity(BASE)


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("llama-8b", "llama-70b"),
        BASE.replace("size 8", "size 16"),
        BASE.replace("1e-4", "2e-4"),
        f"{BASE} --dataset_name c4",
        f"{BASE} --gradient_checkpointing",
        BASE.replace("train.py", "finetune.py"),
        BASE.replace("train.py", "/home/grace/project/train.py"),
    ],
)
def test_other_work_is_another_workload(other: str) -> None:
    """Another model, batch, data set, option, script or folder of a script is something else."""
    assert _identity(other) != _identity(BASE)


def test_the_folder_counts_where_it_is_known() -> None:
    """The same words in two folders are two programs; a path with its folder is the same from anywhere."""
    assert _identity(BASE, "/work/one") != _identity(BASE, "/work/two")
    assert _identity(BASE, "/work/one") == _identity(BASE.replace("train.py", "/work/one/train.py"), "/home/ada")
    assert _identity(BASE, "/tmp/unpacked-1") == _identity(BASE, "/tmp/unpacked-2")


def test_a_server_is_named_by_its_model() -> None:
    """`vllm serve` on two counts of cards is one workload, with another model another."""
    small = _identity("/usr/bin/python3 /opt/vllm serve qwen-32b --tensor-parallel-size 2 --port 8000")
    large = _identity("/usr/bin/python3 /opt/vllm serve qwen-32b --tensor-parallel-size 4 --port 8001")
    assert small == large
    assert small != _identity("/usr/bin/python3 /opt/vllm serve qwen-14b --tensor-parallel-size 4 --port 8001")


@pytest.mark.parametrize(
    "text",
    [
        "python -c print(1)",
        "python * --lr 1",
        "train.py --data *",
        "python -m ipykernel_launcher -f kernel-1.json",
        "VLLM::Worker_TP0",
        "python",
    ],
)
def test_what_cannot_be_named_has_no_identity(text: str) -> None:
    """Inline code, notebooks and renamed processes are compared with nothing."""
    assert _identity(text) == ""


def test_it_says_nothing() -> None:
    """The identity is 16 hexadecimal digits, differs by tenant and installation, and holds no word of the command."""
    mine = _identity(BASE)
    assert len(mine) == 16
    assert int(mine, 16) >= 0
    assert len({mine, _identity(BASE, tenant="globex"), _identity(BASE, salt="c" * 64)}) == 3
