"""Reads the packaged tables: published cards, links, model shapes and measured bandwidths.

The only place that opens these files. Each table is read once, at the first call, and never changes afterwards.
Figures are vendor or published values in base units: defaults for planning and for the time before the driver or the
node itself has shown better ones.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LinkPath = Literal["host", "p2p", "nvlink"]
"""Between cards: through host memory, directly over PCIe, or over NVLink."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it is sold. Field meanings stand at the head of cards.toml."""

    key: str
    name: str
    aliases: tuple[str, ...]
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    memory_bytes: float
    memory_bandwidth_bytes_per_second: float
    power_limit_watts: float
    tensor_flops: float
    fp32_flops: float
    pcie_generation: int
    pcie_lanes: int
    nvlink_bytes_per_second: float
    nvlink_kind: Literal["none", "bridge", "fabric"]
    nvlink_cards: int
    p2p: bool
    source: str

    @property
    def nvlink_one_way_bytes_per_second(self) -> float:
        """Return NVLink's rate in one direction; vendors print both together."""
        return self.nvlink_bytes_per_second / 2


@dataclass(frozen=True, slots=True)
class PcieGeneration:
    """Line coding of one PCIe generation."""

    generation: int
    transfers_per_second: float
    coding_ratio: float


@dataclass(frozen=True, slots=True)
class CollectiveLatency:
    """What one small collective costs on a path, in seconds."""

    path: LinkPath
    pair_seconds: float
    doubling_seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class LayerBoundary:
    """What handing one token's activations to the next card costs, in seconds."""

    low_seconds: float
    typical_seconds: float
    high_seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class Links:
    """The link table: PCIe generations, latencies by path, the layer split's hand-over."""

    pcie: tuple[PcieGeneration, ...]
    latency: tuple[CollectiveLatency, ...]
    layer_boundary: LayerBoundary


@dataclass(frozen=True, slots=True)
class MeasuredBandwidth:
    """One published rate between cards, one direction for each card."""

    path: LinkPath
    card: str
    cards: int
    pcie_generation: int
    pcie_lanes: int
    bytes_per_second: float
    kind: Literal["measured", "implied", "modelled"]
    certain: bool
    source: str


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Published rates between host memory and one card, one direction at a time."""

    card: str
    pcie_generation: int
    pcie_lanes: int
    low_bytes_per_second: float
    high_bytes_per_second: float
    source: str


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """All published rates."""

    measured: tuple[MeasuredBandwidth, ...]
    host_copy: tuple[HostCopy, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A network's shape. Field meanings stand at the head of models.toml; what does not apply is 0."""

    key: str
    name: str
    kind: Literal["decoder", "encoder", "image"]
    parameters: float
    active_parameters: float
    source: str
    aliases: tuple[str, ...] = ()
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    vocabulary: int = 0
    sequence: int = 1
    gated: bool = True
    tied: bool = False
    experts: int = 0
    experts_per_token: int = 0
    forward_flops: float = 0.0
    activation_bytes: float = 0.0
    recomputed_activation_bytes: float = 0.0


@cache
def cards() -> tuple[Card, ...]:
    """Return all cards, oldest architecture first."""
    return msgspec.convert(_table("cards.toml")["card"], tuple[Card, ...])


@cache
def links() -> Links:
    """Return the link table."""
    return msgspec.convert(_table("links.toml"), Links)


@cache
def models() -> tuple[Model, ...]:
    """Return all model shapes, by family."""
    return msgspec.convert(_table("models.toml")["model"], tuple[Model, ...])


@cache
def bandwidths() -> Bandwidths:
    """Return all published rates."""
    return msgspec.convert(_table("measured_bandwidth.toml"), Bandwidths)


def card_by_name(name: str) -> Card | None:
    """Return the card of that name, None if the table has no such card.

    Args:
        name: a key, an alias, or the name NVML gives (`NVIDIA GeForce RTX 4090`); case, blanks, hyphens and the words
            NVIDIA, GeForce and Tesla do not matter.
    """
    return _card_names().get(_plain(name))


def model_by_name(name: str) -> Model | None:
    """Return the model of that name or alias, None if the table has no such model."""
    return _model_names().get(_plain(name))


def pcie_bytes_per_second(generation: int, lanes: int) -> float:
    """Return the line rate of a PCIe link in one direction after line coding, before packet overhead.

    Raises: ValueError for a generation the table does not have.
    Source: PCI Express Base Specification; gen5 x16 is 63.0 GB/s.
    """
    for row in links().pcie:
        if row.generation == generation:
            return row.transfers_per_second * row.coding_ratio * lanes / 8
    raise ValueError(f"PCIe generation {generation} is not in links.toml")


@cache
def _card_names() -> dict[str, Card]:
    return {_plain(name): card for card in cards() for name in (card.key, card.name, *card.aliases)}


@cache
def _model_names() -> dict[str, Model]:
    return {_plain(name): model for model in models() for name in (model.key, model.name, *model.aliases)}


def _plain(name: str) -> str:
    text = name.lower()
    for word in ("nvidia", "geforce", "tesla"):
        text = text.replace(word, "")
    return "".join(sign for sign in text if sign.isalnum() or sign == ".")


def _table(file: str) -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((resources.files("gpumon.data") / file).read_text("utf-8"))
    return table
