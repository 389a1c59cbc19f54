"""A recorded process table comes back as it was, so that a replay attributes as the daemon did."""

from __future__ import annotations

import msgspec

from gpumon.model.process import Container, ProcessTable
from gpumon.recording.mask import masked
from gpumon.recording.processes import ProcessTableRecord, from_record, to_record


def test_what_attribution_needs_is_recorded() -> None:
    """Config values, foreign pids and what a container asked for survive a recording."""
    table = ProcessTable(
        read_s=1.0,
        containers={"a" * 64: Container("a" * 64, "n", "docker", "i", {}, gpu_request="0,1", owner_uid=1000)},
        configs={(7, 70): {"zero_optimization.stage": "3"}},
        foreign_pids=True,
    )
    packed = msgspec.msgpack.encode(to_record(table))
    assert from_record(msgspec.msgpack.decode(packed, type=ProcessTableRecord)) == table


def test_words_of_configs_are_masked() -> None:
    """A masked recording keeps numbers and known words of configuration files, and nothing else of them."""
    table = ProcessTable(configs={(7, 70): {"num_processes": "8", "distributed_type": "FSDP", "ddp_backend": "hidden"}})
    assert masked(table).configs == {(7, 70): {"num_processes": "8", "distributed_type": "FSDP", "ddp_backend": "*"}}
