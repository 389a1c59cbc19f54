"""The packaged tables: every row has a source and agrees with what can be recomputed."""

from __future__ import annotations

import pytest

from gpumon.data import tables
from gpumon.data.tables import Model
from gpumon.plan.shapes import expert_parameters

TRANSFORMERS = [model for model in tables.models() if model.kind != "image"]


def test_every_row_has_a_source() -> None:
    """Cards, models, latencies and bandwidths all say where they are from."""
    rows = [
        *tables.cards(),
        *tables.models(),
        *tables.links().latency,
        tables.links().layer_boundary,
        *tables.bandwidths().measured,
        *tables.bandwidths().host_copy,
    ]
    assert all(row.source for row in rows)


@pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda model: model.key)
def test_parameters_follow_from_the_shape(model: Model) -> None:
    """The parameter count recomputed from layers, widths and vocabulary is within 1.5 % of the published one."""
    attention = 2 * model.hidden * model.head_dim * (model.heads + model.kv_heads)
    matrices = 3 if model.gated else 2
    dense = 0 if model.experts else matrices * model.hidden * model.intermediate
    router = model.experts * model.hidden
    embeddings = model.vocabulary * model.hidden * (1 if model.tied else 2)
    total = model.layers * (attention + dense + router) + expert_parameters(model) + embeddings
    assert total == pytest.approx(model.parameters, rel=0.015)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("rtx 4090", "rtx4090"),
        ("4090", "rtx4090"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
        ("Tesla T4", "t4"),
    ],
)
def test_cards_are_found_by_the_names_people_and_drivers_use(name: str, key: str) -> None:
    """A key, an alias and the driver's name all lead to the same card."""
    card = tables.card_by_name(name)
    assert card is not None
    assert card.key == key


def test_names_are_not_shared() -> None:
    """No two cards and no two models answer to one name."""
    for rows in (tables.cards(), tables.models()):
        names = [tables._plain(name) for row in rows for name in {row.key, row.name, *row.aliases}]
        owners = {
            name: {row.key for row in rows if name in map(tables._plain, (row.key, row.name, *row.aliases))}
            for name in names
        }
        assert all(len(found) == 1 for found in owners.values())


def test_an_unknown_card_is_none() -> None:
    """A name the table does not have gives None, not a guess."""
    assert tables.card_by_name("RTX 9999") is None


@pytest.mark.parametrize(
    ("generation", "lanes", "rate"),
    [
        (1, 16, 4.0e9),
        (2, 8, 4.0e9),
        (3, 16, 15.75e9),
        (4, 16, 31.5e9),
        (4, 8, 15.75e9),
        (5, 16, 63.0e9),
        (6, 16, 121e9),
    ],
)
def test_line_rates(generation: int, lanes: int, rate: float) -> None:
    """Line rates in one direction follow from transfers, coding and lanes. Source: PCI Express Base Specification."""
    assert tables.pcie_bytes_per_second(generation, lanes) == pytest.approx(rate, rel=0.002)


def test_measured_rates_stay_below_their_link() -> None:
    """No published rate is above the line rate of the link it went over."""
    for row in tables.bandwidths().measured:
        card = tables.card_by_name(row.card)
        assert card is not None, row.card
        line = tables.pcie_bytes_per_second(row.pcie_generation, row.pcie_lanes)
        assert row.bytes_per_second < (card.nvlink_one_way_bytes_per_second if row.path == "nvlink" else line)
