"""Configuration files named on a command line: what is kept, and what is not even opened."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpumon.hardware.procfs import configs

ZERO3 = {
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": "auto",
    "wandb": {"api_key": "0123456789"},
}
ACCELERATE = """\
# accelerate
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD   # all of it
  fsdp_offload_params: true
num_processes: 8
main_process_ip: 10.0.0.1
"""


class Box:
    """A process's root and working directory, below a folder that stands for /proc/PID."""

    def __init__(self, folder: Path) -> None:
        self.process, self.root = folder / "42", folder / "box"
        (self.root / "work").mkdir(parents=True)
        self.process.mkdir()
        (self.process / "root").symlink_to(self.root)
        (self.process / "cwd").symlink_to("/work")
        self.fstypes = {"/": "overlay"}

    def write(self, name: str, content: str) -> Path:
        target = self.root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        return target

    def read(self, *words: str, uid: int = -2) -> Mapping[str, str]:
        return configs.read(str(self.process), uid, ("python", *words), self.fstypes)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_deepspeed_json(box: Box) -> None:
    """Only known keys with plain values are kept of a DeepSpeed configuration."""
    box.write("/work/ds.json", json.dumps(ZERO3))
    assert box.read("--deepspeed", "ds.json") == {
        "zero_optimization.stage": "3",
        "zero_optimization.offload_optimizer.device": "cpu",
        "train_micro_batch_size_per_gpu": "4",
        "gradient_accumulation_steps": "auto",
    }


def test_accelerate_yaml(box: Box) -> None:
    """Nested mappings of a YAML file become dotted keys; addresses are not kept."""
    box.write("/etc/acc.yaml", ACCELERATE)
    assert box.read("--config_file=/etc/acc.yaml", "t.py") == {
        "distributed_type": "FSDP",
        "fsdp_config.fsdp_sharding_strategy": "FULL_SHARD",
        "fsdp_config.fsdp_offload_params": "true",
        "num_processes": "8",
    }


def test_a_config_that_names_another(box: Box) -> None:
    """The DeepSpeed file that a YAML configuration names is read too."""
    box.write("/work/train.yaml", "per_device_train_batch_size: 2\ndeepspeed: cfg/z2.json\n")
    box.write("/work/cfg/z2.json", '{"zero_optimization": {"stage": 2}}')
    assert box.read("train", "train.yaml")["zero_optimization.stage"] == "2"


def test_links_are_not_followed(box: Box, tmp_path: Path) -> None:
    """A link, in the last element or on the way, cannot lead out of the container."""
    secret = tmp_path / "host.json"
    secret.write_text('{"num_processes": 7}')
    (box.root / "work/a.json").symlink_to(secret)
    (box.root / "work/out").symlink_to(tmp_path)
    assert box.read("a.json", "out/host.json", "../../host.json") == {}


def test_pipes_devices_and_large_files_are_not_opened(box: Box) -> None:
    """Only regular files of bounded size are read, so nothing can block or fill the memory."""
    os.mkfifo(box.root / "work/pipe.json")
    box.write("/work/large.json", '{"num_processes": 7, "x": "' + "y" * configs.LARGEST + '"}')
    (box.root / "work/folder.json").mkdir()
    assert box.read("pipe.json", "large.json", "folder.json") == {}


@pytest.mark.parametrize("fstype", ["fuse.sshfs", "nfs4", "9p", "cifs", ""])
def test_file_systems_that_may_hang(box: Box, fstype: str) -> None:
    """A file on a mount whose server may never answer is not read."""
    box.write("/mnt/x/a.json", '{"num_processes": 7}')
    box.fstypes["/mnt/x"] = fstype
    assert box.read("/mnt/x/a.json") == {}


def test_a_file_its_user_may_not_read(box: Box) -> None:
    """What the process's own user may not read is not read for it."""
    target = box.write("/work/a.json", '{"num_processes": 7}')
    target.chmod(0o600)
    assert box.read("a.json", uid=4242) == {}
    assert box.read("a.json", uid=target.stat().st_uid) == {"num_processes": "7"}


@pytest.mark.parametrize(
    "content", ["", "{", "[1,2]", "[" * 100_000, "a: b: c:\n", "\x00\xff", "? x\n: y\n", "- a\n- b\n", '"just text"']
)
def test_broken_files(box: Box, content: str) -> None:
    """A file that is no configuration gives nothing and raises nothing."""
    box.write("/work/a.json", content)
    box.write("/work/b.yaml", content)
    assert box.read("a.json", "b.yaml") == {}


def test_which_words_name_files() -> None:
    """Words and option values with a known ending are files; addresses are not, and there are few."""
    words = ("python", "t.py", "a.yaml", "--config=b.json", "https://x/c.json", *(f"{n}.yml" for n in range(9)))
    assert configs.named(words) == ("a.yaml", "b.json", "0.yml", "1.yml")
