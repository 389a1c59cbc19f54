"""Launch layouts from command lines, variables and config values: what is said is read, what is not stays unknown."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon.jobs import layout
from gpumon.jobs.layout import command, configs, environment
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout


def said(words: str | tuple[str, ...]) -> Said:
    return layout.of_command(command.read(tuple(words.split()) if isinstance(words, str) else words))


WORLD = base64.urlsafe_b64encode(json.dumps({"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}).encode()).decode()

COMMANDS: list[tuple[str, dict[str, object]]] = [
    # torchrun
    ("torchrun --standalone --nproc_per_node=4 train.py", {"launcher": "torchrun", "world_size": 4, "ranks_here": 4}),
    ("torchrun --nproc-per-node 8 --nnodes=2 --node-rank 1 t.py", {"world_size": 16, "ranks_here": 8}),
    ("torchrun --nproc-per-node gpu t.py", {"launcher": "torchrun", "world_size": 0, "ranks_here": 0}),
    ("torchrun --nnodes 1:4 --nproc-per-node 2 t.py", {"world_size": 0, "ranks_here": 2}),
    ("python3 -m torch.distributed.run --nproc-per-node 2 t.py", {"launcher": "torchrun", "world_size": 2}),
    ("python -m torch.distributed.launch --use_env --nproc_per_node=2 t.py --local_rank 0", {"world_size": 2}),
    ("/opt/conda/bin/python -u /opt/conda/bin/torchrun --nproc_per_node 2 -m pkg.train", {"world_size": 2}),
    # accelerate
    (
        "accelerate launch --num_processes 8 --multi_gpu t.py",
        {"launcher": "accelerate", "world_size": 8, "asked": "ddp"},
    ),
    ("accelerate launch --num_processes 8 t.py", {"world_size": 8, "asked": ""}),
    (
        "accelerate launch --num_processes=8 --num_machines 2 --use_fsdp --fsdp_sharding_strategy FULL_SHARD "
        "--fsdp_offload_params true t.py",
        {"asked": "fsdp", "offload": True, "ranks_here": 4},
    ),
    (
        "accelerate launch --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu "
        "--gradient_accumulation_steps 4 t.py",
        {"asked": "zero3", "zero_stage": 3, "offload": True, "accumulation": 4},
    ),
    ("accelerate launch --use_fsdp --fsdp_sharding_strategy NO_SHARD t.py", {"asked": "ddp"}),
    # deepspeed
    ("deepspeed --num_gpus 4 t.py --deepspeed ds.json", {"launcher": "deepspeed", "world_size": 4, "asked": ""}),
    ("deepspeed --include localhost:0,2 t.py", {"ranks_here": 2}),
    (
        f"python -u -m deepspeed.launcher.launch --world_info={WORLD} --node_rank=1 --master_addr=10.0.0.1 "
        "--master_port=29500 t.py",
        {"launcher": "deepspeed", "world_size": 8, "ranks_here": 4},
    ),
    ("python -u -m deepspeed.launcher.launch --world_info=%%% t.py", {"launcher": "deepspeed", "world_size": 0}),
    # MPI and Slurm
    ("mpirun --allow-run-as-root -np 4 -x A --mca btl tcp,self python t.py", {"launcher": "mpirun", "world_size": 4}),
    ("mpirun -np 8 -H a:4,b:4 python t.py", {"world_size": 8, "ranks_here": 0}),
    ("srun -n 8 --gpus-per-task=1 python t.py", {"launcher": "srun", "world_size": 8, "ranks_here": 0}),
    # launchers inside launchers
    ("mpirun -np 2 torchrun --nproc_per_node 4 t.py", {"launcher": "mpirun", "world_size": 4}),
    (
        "accelerate launch --num_processes 4 -m axolotl.cli.train c.yml --micro-batch-size 2",
        {"launcher": "accelerate", "framework": "axolotl", "micro_batch": 2},
    ),
    # Megatron
    (
        "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
        "--micro-batch-size 1 --num-workers 2 --distributed-backend nccl",
        {
            "framework": "megatron",
            "asked": "tp+pp",
            "tensor_parallel": 4,
            "pipeline_parallel": 2,
            "micro_batch": 1,
            "loader_workers": 2,
            "backend": "nccl",
        },
    ),
    ("python pretrain_gpt.py --use-distributed-optimizer", {"asked": "zero1", "tensor_parallel": 1}),
    ("python pretrain_gpt.py --lr 1", {"asked": "ddp"}),
    ("python x.py --tensor-model-parallel-size 1 --use-torch-fsdp2", {"asked": "fsdp"}),
    # vLLM
    ("vllm serve m -tp 4", {"framework": "vllm", "asked": "tp", "tensor_parallel": 4, "world_size": 4}),
    (
        "python -m vllm.entrypoints.openai.api_server --model m --tensor-parallel-size 2 --pipeline-parallel-size=2 "
        "--data-parallel-size 2 --enable-expert-parallel --cpu-offload-gb 10",
        {"asked": "tp+pp", "world_size": 8, "expert_parallel": 4, "offload": True, "data_parallel": 2},
    ),
    ("vllm serve m", {"asked": "single", "world_size": 1, "offload": False}),
    ("vllm serve m --data-parallel-size 4", {"asked": "", "data_parallel": 4}),
    ("VLLM::Worker_TP1", {"framework": "vllm", "asked": ""}),
    # SGLang
    (
        "python -m sglang.launch_server --model-path m --tp 8 --nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:5000",
        {"framework": "sglang", "asked": "tp", "tensor_parallel": 8, "world_size": 8, "ranks_here": 4},
    ),
    ("python -m sglang.launch_server --tp-size 4 --dp-size 4 --enable-dp-attention", {"world_size": 4}),
    # llama.cpp
    ("llama-server -m m.gguf -ngl 99", {"framework": "llama.cpp", "asked": "pp", "offload": False}),
    ("llama-server -m m.gguf -ngl 99 -sm row", {"asked": "tp"}),
    ("./llama-cli -m m.gguf --n-cpu-moe 20 -ngl 99", {"asked": "offload", "offload": True}),
    ("llama-server -ot .ffn_.*_exps.=CPU", {"offload": True}),
    # TensorRT-LLM
    ("trtllm-serve m --tp_size 2 --pp_size 2", {"framework": "tensorrt-llm", "asked": "tp+pp", "world_size": 4}),
    # Trainer, LLaMA-Factory, Lightning
    (
        "torchrun --nproc_per_node 2 run_clm.py --per_device_train_batch_size 8 --gradient_accumulation_steps 4 "
        "--dataloader_num_workers 0 --ddp_backend gloo",
        {"micro_batch": 8, "accumulation": 4, "loader_workers": 0, "backend": "gloo", "framework": "huggingface"},
    ),
    ("python t.py --per_device_train_batch_size 8 --deepspeed d.json", {"asked": "", "micro_batch": 8}),
    ("llamafactory-cli train c.yaml", {"framework": "llamafactory"}),
    ("python t.py fit --trainer.strategy deepspeed_stage_3_offload", {"asked": "zero3", "offload": True}),
    ("python t.py --strategy fsdp", {"asked": "fsdp"}),
    # nothing to be known
    ("python train.py --lr 1e-4 --batch-size 32", {"launcher": "", "framework": "", "asked": "", "micro_batch": 0}),
    ("bash run.sh", {"launcher": "", "framework": ""}),
    ("python -c import_torch", {"launcher": "", "framework": ""}),
    ("", {"launcher": "", "framework": ""}),
]


@pytest.mark.parametrize(("words", "want"), COMMANDS)
def test_command_lines(words: str, want: dict[str, object]) -> None:
    """Each family's command line says what its flags say, and nothing more."""
    found = said(words).layout
    assert {name: getattr(found, name) for name in want} == want


@pytest.mark.parametrize(
    ("words", "address", "port", "nodes"),
    [
        ("torchrun --nnodes 2 --master_addr 10.0.0.1 --master_port 1234 t.py", "10.0.0.1", 1234, 2),
        ("torchrun --nnodes 2 --rdzv-endpoint=[fe80::1]:29400 t.py", "fe80::1", 29400, 2),
        ("torchrun --nproc-per-node 2 t.py", "127.0.0.1", 29500, 1),
        ("torchrun --standalone --nproc-per-node 2 t.py", "127.0.0.1", 0, 1),
        ("accelerate launch --num_machines 2 --main_process_ip 10.0.0.1 --main_process_port 7 t.py", "10.0.0.1", 7, 2),
    ],
)
def test_rendezvous(words: str, address: str, port: int, nodes: int) -> None:
    """Where the ranks meet, as the launcher was told."""
    found = said(words).rendezvous
    assert (found.address, found.port, found.nodes) == (address, port, nodes)


def test_variables() -> None:
    """Ranks, sizes, NCCL settings and visible devices come from the variables of a rank."""
    found = environment.read(
        {
            "RANK": "3",
            "WORLD_SIZE": "8",
            "LOCAL_WORLD_SIZE": "4",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "29500",
            "GROUP_WORLD_SIZE": "2",
            "GROUP_RANK": "0",
            "NCCL_P2P_DISABLE": "1",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "ACCELERATE_USE_DEEPSPEED": "true",
            "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
        }
    )
    assert (found.layout.world_size, found.layout.ranks_here, found.layout.asked) == (8, 4, "zero2")
    assert found.layout.nccl == (("NCCL_P2P_DISABLE", "1"),)
    assert found.layout.visible_devices == "0,1"
    assert (found.rendezvous.rank, found.rendezvous.node_rank, found.rendezvous.nodes) == (3, 0, 2)


def test_variables_of_a_launcher_are_another_launchers() -> None:
    """A launcher's own WORLD_SIZE counts what started it, not the ranks it starts."""
    found = environment.read({"WORLD_SIZE": "2", "RANK": "0", "NCCL_NET": "IB"}, starts_ranks=True)
    assert (found.layout.world_size, found.rendezvous.rank, found.layout.nccl) == (0, -1, (("NCCL_NET", "IB"),))


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (
            {
                "zero_optimization.stage": "3",
                "zero_optimization.offload_param.device": "cpu",
                "train_micro_batch_size_per_gpu": "2",
                "gradient_accumulation_steps": "16",
            },
            {"asked": "zero3", "zero_stage": 3, "offload": True, "micro_batch": 2, "accumulation": 16},
        ),
        ({"train_micro_batch_size_per_gpu": "auto", "zero_optimization.stage": "0"}, {"asked": "", "micro_batch": 0}),
        (
            {"distributed_type": "FSDP", "fsdp_config.fsdp_sharding_strategy": "FULL_SHARD", "num_processes": "4"},
            {"asked": "fsdp", "world_size": 4},
        ),
        ({"distributed_type": "MULTI_GPU"}, {"asked": "ddp"}),
        ({"fsdp": "full_shard offload"}, {"asked": "fsdp", "offload": True}),
        ({"tensor_parallel_size": "4"}, {"asked": "tp", "tensor_parallel": 4}),
    ],
)
def test_config_values(values: Mapping[str, str], want: dict[str, object]) -> None:
    """Values of configuration files say the same as flags would."""
    found = configs.read(values).layout
    assert {name: getattr(found, name) for name in want} == want


@pytest.mark.parametrize(
    ("words", "cards", "processes", "want"),
    [
        ("torchrun --nproc_per_node 2 t.py --per_device_train_batch_size 8", 2, 2, "ddp"),
        ("python t.py --per_device_train_batch_size 8", 4, 1, ""),  # DataParallel or device_map: not said
        ("accelerate launch t.py --per_device_train_batch_size 8", 4, 4, ""),  # its config file may say DeepSpeed
        ("llama-server -m m.gguf -ngl 99", 1, 1, "single"),
        ("llama-server -m m.gguf -ngl 99", 4, 1, "pp"),
        ("python t.py", 1, 1, ""),  # a world of one is only known with its variables
    ],
)
def test_what_follows_from_the_whole_job(words: str, cards: int, processes: int, want: str) -> None:
    """What a flag leaves open is decided by the launcher and the cards, or not at all."""
    assert layout.finished(said(words).layout, cards=cards, processes=processes, thread_names="").asked == want


def test_data_parallel_size_follows_from_the_others() -> None:
    """World size over tensor and pipeline parallel sizes."""
    found = said("torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2").layout
    assert layout.finished(found, cards=8, processes=8, thread_names="").data_parallel == 4


@pytest.mark.parametrize(
    ("names", "want"),
    [("pt_nccl_watchdg pt_gloo_runloop", "nccl"), ("pt_gloo_runloop", "gloo"), ("pt_data_pin", "")],
)
def test_backend_by_thread_names(names: str, want: str) -> None:
    """PyTorch's thread names tell the backend where no flag does."""
    assert layout.finished(Layout(), cards=2, processes=2, thread_names=names).backend == want


PROGRAMS = st.sampled_from(
    "python torchrun accelerate deepspeed mpirun srun vllm llama-server trtllm-serve axolotl llamafactory-cli bash "
    "-m -c launch serve torch.distributed.run deepspeed.launcher.launch sglang.launch_server "
    "pretrain_gpt.py train.py --".split()
)
FLAGS = st.sampled_from(
    "--nproc_per_node --nnodes --world_info --num_processes --master_port --rdzv-endpoint -tp "
    "--tensor-parallel-size -np -x --mca --zero_stage --deepspeed --per_device_train_batch_size --num-workers -ngl "
    "--include --node_rank".split()
)
WORDS = st.one_of(PROGRAMS, FLAGS, st.text(max_size=20), st.integers().map(str), st.just(WORLD), st.just("1:4"))


@given(st.lists(st.one_of(WORDS, st.tuples(FLAGS, WORDS).map("=".join)), max_size=12).map(tuple))
@settings(max_examples=500, deadline=None)
def test_any_command_line_is_read(words: tuple[str, ...]) -> None:
    """No command line raises, and sizes are never negative or beyond a billion squared."""
    found = said(words).layout
    for name in ("world_size", "ranks_here", "tensor_parallel", "pipeline_parallel", "micro_batch", "accumulation"):
        assert 0 <= getattr(found, name) < 10**28
    closed = {"", "ddp", "fsdp", "zero1", "zero2", "zero3", "tp", "pp", "tp+pp", "offload", "single"}
    assert found.asked in closed | {f"zero{n}" for n in range(10)}


@given(st.dictionaries(st.sampled_from(sorted(configs.__dict__)), st.text()), st.dictionaries(st.text(), st.text()))
@settings(max_examples=100, deadline=None)
def test_any_values_are_read(values: dict[str, str], variables: dict[str, str]) -> None:
    """No config value and no variable raises."""
    configs.read(values | {"zero_optimization.stage": next(iter(values.values()), "")})
    environment.read(variables | dict.fromkeys(("RANK", "WORLD_SIZE", "MASTER_PORT"), "x"))
