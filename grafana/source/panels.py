"""Panels as this project draws them: legends with figures shown, units set, and a description that says what to do.

The library's own defaults hide legends and leave calculations empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import (
    barchart,
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models import prometheus as prometheus_model

from grafana.source.palette import BAD, CALM, NOTICE
from grafana.source.units import SHARE

DATA_SOURCE = common_model.DataSourceRef(type_val="prometheus", uid="${datasource}")

Panel = (
    barchart.Panel | bargauge.Panel | heatmap.Panel | stat.Panel | statetimeline.Panel | table.Panel | timeseries.Panel
)
Override = tuple[str, Mapping[str, object]]  # the name of a series or column, and its properties


@dataclass(frozen=True, slots=True)
class Says:
    """What a panel shows, and what to do when it looks bad."""

    shows: str
    when_bad: str

    def text(self) -> str:
        """Return the description as Markdown."""
        return f"{self.shows}\n\n**When it looks bad:** {self.when_bad}"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression of a panel."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a label, or the value of the query with that letter."""

    source: str
    title: str
    properties: Mapping[str, object] = field(default_factory=dict)


def thresholds(*steps: tuple[float, str], base: str = CALM) -> dashboard_builder.ThresholdsConfig:
    """Return colours from each value on; `base` below the first."""
    colours = [dashboard.Threshold(color=base), *(dashboard.Threshold(value, colour) for value, colour in steps)]
    return dashboard_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(colours)


# What the queries of a table bring: labels, and a value for each.
_POSSIBLE_COLUMNS = (
    *("Time", "Value", *(f"Value #{letter}" for letter in "ABCDEFGHIJKLMNOP")),
    *("instance", "gpu_job", "tenant", "class", "detail", "verdict", "gpu", "uuid", "uplink", "about", "alertname"),
    *("severity", "audience", "finding", "advice", "key", "version", "python", "xid"),
)

# Stacked shares are not stated every minute; a shorter gap says nothing and tears the areas apart.
_BRIDGED_MS = 300_000

# A link is worth a look from here, and full from there: `pcie_saturated_seconds_total` counts from 0.8.
FULLNESS = ((0.6, NOTICE), (0.8, BAD))
# For what should not be there at all.
BAD_FROM_ONE = ((1, BAD),)


def one_colour(colour: str) -> dashboard_builder.FieldColor:
    """Return a fixed colour."""
    return dashboard_builder.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(colour)


def by_thresholds() -> dashboard_builder.FieldColor:
    """Return colouring by the panel's thresholds."""
    return dashboard_builder.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS)


def figure(
    title: str,
    says: Says,
    query: Query,
    *,
    unit: str,
    width: int = 4,
    height: int = 4,
    decimals: int | None = None,
    steps: Sequence[tuple[float, str]] = (),
    base: str = CALM,
    no_value: str = "",
    spark: bool = False,
    mappings: list[dashboard.ValueMapping] | None = None,
) -> stat.Panel:
    """Return one large number, coloured by thresholds."""
    panel = (
        stat.Panel()
        .unit(unit)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .thresholds(thresholds(*steps, base=base))
        .color_scheme(by_thresholds())
        .color_mode(common_model.BigValueColorMode.VALUE)
        .graph_mode(common_model.BigValueGraphMode.AREA if spark else common_model.BigValueGraphMode.NONE)
        .with_target(_target(query, 0, instant=not spark))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if mappings is not None:
        panel.mappings(mappings)
    return _finished(panel, title, says, (width, height), no_value)


def sentence(
    title: str,
    says: Says,
    query: Query,
    *,
    label: str,
    mappings: list[dashboard.ValueMapping],
    width: int,
    height: int = 4,
    no_value: str = "",
) -> stat.Panel:
    """Return a label of the result in large letters on the colour that its mapping gives."""
    panel = (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(True).fields(f"/^{label}$/"))
        .mappings(mappings)
        .color_scheme(one_colour(CALM))
        .color_mode(common_model.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .text_mode(common_model.BigValueTextMode.VALUE)
        .text(common.VizTextDisplayOptions().value_size(24))
        .with_target(_target(query, 0, instant=True, as_table=True))
    )
    return _finished(panel, title, says, (width, height), no_value)


def graph(
    title: str,
    says: Says,
    *queries: Query,
    unit: str,
    width: int = 12,
    height: int = 8,
    low: float | None = 0,
    high: float | None = None,
    stacked: bool = False,
    overrides: Sequence[Override] = (),
    no_value: str = "",
    legend_right: bool = False,
    steps: Sequence[tuple[float, str]] = (),
    largest_first: bool = False,
    reach: float | None = None,
    at_least: str = "",
) -> timeseries.Panel:
    """Return lines over time, or stacked areas. A legend on the right shows the last and the largest value.

    Args:
        high: end of the axis; what lies above is cut off.
        reach: what the axis shows at least.
        at_least: the shortest step, over which rates are then taken.
    """
    legend = (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(common_model.LegendDisplayMode.TABLE if legend_right else common_model.LegendDisplayMode.LIST)
        .placement(common_model.LegendPlacement.RIGHT if legend_right else common_model.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"] if legend_right else [])
    )
    panel = (
        timeseries.Panel()
        .unit(unit)
        .legend(legend)
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_model.TooltipDisplayMode.MULTI)
            .sort(common_model.SortOrder.DESCENDING)
        )
        .show_points(common_model.VisibilityMode.NEVER)
        .line_width(0 if stacked else 1.5)
        .fill_opacity(85 if stacked else 0)
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A"))
        panel.span_nulls(_BRIDGED_MS)
    if reach is not None:
        panel.axis_soft_max(reach)
    if at_least:
        panel.interval(at_least)
    if largest_first:
        legend.sort_by("Max").sort_desc(True)
        panel.legend(legend)
    if low is not None:
        panel.min(low)
    if high is not None:
        panel.max(high)
    if steps:
        panel.thresholds(thresholds(*steps, base="transparent"))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(common_model.GraphThresholdsStyleMode.DASHED))
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number))
    _override(panel, overrides)
    return _finished(panel, title, says, (width, height), no_value)


def timeline(
    title: str,
    says: Says,
    *queries: Query,
    mappings: list[dashboard.ValueMapping],
    width: int = 24,
    height: int = 6,
    no_value: str = "",
    show_text: bool = True,
) -> statetimeline.Panel:
    """Return one row a series whose values are names by mapping."""
    panel = (
        statetimeline.Panel()
        .mappings(mappings)
        .color_scheme(one_colour(CALM))
        .merge_values(True)
        .show_value(common_model.VisibilityMode.AUTO if show_text else common_model.VisibilityMode.NEVER)
        .row_height(0.8)
        .fill_opacity(90)
        .line_width(0)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_model.LegendDisplayMode.LIST)
            .placement(common_model.LegendPlacement.BOTTOM)
            .calcs([])
        )
    )
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number))
    return _finished(panel, title, says, (width, height), no_value)


def bars(
    title: str,
    says: Says,
    *queries: Query,
    unit: str,
    width: int = 12,
    height: int = 8,
    high: float | None = None,
    steps: Sequence[tuple[float, str]] = (),
    base: str = CALM,
    no_value: str = "",
    decimals: int | None = None,
    overrides: Sequence[Override] = (),
) -> bargauge.Panel:
    """Return one horizontal bar a series, as of now."""
    panel = (
        bargauge.Panel()
        .unit(unit)
        .min(0)
        .orientation(common_model.VizOrientation.HORIZONTAL)
        .display_mode(common_model.BarGaugeDisplayMode.BASIC)
        .name_placement(common_model.BarGaugeNamePlacement.LEFT)
        .value_mode(common_model.BarGaugeValueMode.TEXT)
        .show_unfilled(True)
        .sizing(common_model.BarGaugeSizing.MANUAL)
        .min_viz_height(16)
        .min_viz_width(8)
        .max_viz_height(26)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .thresholds(thresholds(*steps, base=base))
        .color_scheme(by_thresholds())
    )
    if high is not None:
        panel.max(high)
    if decimals is not None:
        panel.decimals(decimals)
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number, instant=True))
    _override(panel, overrides)
    return _finished(panel, title, says, (width, height), no_value)


def heat(title: str, says: Says, query: Query, *, width: int = 12, height: int = 8) -> heatmap.Panel:
    """Return one row a series, coloured from 0 to 1."""
    panel = (
        heatmap.Panel()
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_model.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .steps(64)
            .min(0)
            .max(1)
            .exponent(0.5)
            .reverse(False)
        )
        .cell_gap(1)
        .filter_values(heatmap.FilterValueRange().le(-1))  # by default a zero is not drawn
        .cell_values(heatmap.CellValues().unit(SHARE).decimals(0))
        .y_axis(heatmap.YAxisConfig().axis_placement(common_model.AxisPlacement.LEFT).unit("short").reverse(True))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(common_model.HeatmapCellLayout.AUTO))
        .tooltip(heatmap.HeatmapTooltip().mode(common_model.TooltipDisplayMode.SINGLE).y_histogram(False))
        .show_legend()
        .with_target(_target(query, 0))
    )
    return _finished(panel, title, says, (width, height), "")


def columns_chart(
    title: str,
    says: Says,
    query: Query,
    *,
    x: str,
    unit: str,
    width: int = 8,
    height: int = 8,
    no_value: str = "",
    high: float | None = None,
) -> barchart.Panel:
    """Return vertical bars over the values of a label."""
    panel = (
        barchart.Panel()
        .unit(unit)
        .min(0)
        .x_field(x)
        .show_value(common_model.VisibilityMode.ALWAYS)
        .bar_width(0.7)
        .fill_opacity(85)
        .color_scheme(one_colour(CALM))
        .legend(
            common.VizLegendOptions()
            .show_legend(False)
            .display_mode(common_model.LegendDisplayMode.HIDDEN)
            .placement(common_model.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .with_target(_target(query, 0, instant=True, as_table=True))
        .with_transformation(_organized([Column(x, x), Column("Value", "value")]))
    )
    if high is not None:
        panel.max(high)
    _override(panel, [(x, {"unit": "none"})])
    return _finished(panel, title, says, (width, height), no_value)


def rows(
    title: str,
    says: Says,
    queries: Sequence[Query],
    columns: Sequence[Column],
    *,
    width: int = 24,
    height: int = 8,
    sort: str = "",
    descending: bool = True,
    no_value: str = "",
    order: str = "",
) -> table.Panel:
    """Return a table: one row for each set of labels, the values of the queries beside each other.

    Args:
        columns: those shown, left to right; all others are hidden. `source` of a value is "Value" with one query, else
            "Value #A" and so on.
        sort: title of the column to sort by.
        order: label to sort by that is not shown.
    """
    panel = (
        table.Panel()
        .show_header(True)
        .cell_height(common_model.TableCellHeight.SM)
        .thresholds(thresholds())
        .color_scheme(by_thresholds())
    )
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number, instant=True, as_table=True))
    if len(queries) > 1:
        panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    if order:
        options = {"fields": {}, "sort": [{"field": order}]}
        panel.with_transformation(dashboard.DataTransformerConfig(id_val="sortBy", options=options))
    panel.with_transformation(_organized(columns))
    # The text for an empty table would else stand in every empty cell.
    empty = {"noValue": "-"} if no_value else {}
    _override(panel, [(column.title, {**empty, **column.properties}) for column in columns])
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(descending)])
    return _finished(panel, title, says, (width, height), no_value)


def fixed_colours(colours: Mapping[str, str]) -> list[Override]:
    """Return overrides that give each named series its colour."""
    return [(name, {"color": {"mode": "fixed", "fixedColor": colour}}) for name, colour in colours.items()]


def lines(names: Sequence[str]) -> list[Override]:
    """Return overrides that draw what a series is held against: dashed and without a colour of its own."""
    style = {"custom.lineStyle": {"fill": "dash", "dash": [8, 6]}, "custom.lineWidth": 2}
    return [(name, {"color": {"mode": "fixed", "fixedColor": BAD}, **style}) for name in names]


def _target(query: Query, number: int, *, instant: bool = False, as_table: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(DATA_SOURCE).ref_id(chr(ord("A") + number)).expr(query.expr)
    target.editor_mode(prometheus_model.QueryEditorMode.CODE)
    target.legend_format(query.legend)
    if as_table:
        target.format(prometheus_model.PromQueryFormat.TABLE)
    return target.instant() if instant else target.range()


def _organized(columns: Sequence[Column]) -> dashboard.DataTransformerConfig:
    """Keep these columns in this order under these titles.

    Grafana before 10.3 cannot be told what to keep, so what to drop is listed; a name that is not there does no harm.
    """
    shown = {column.source for column in columns}
    return dashboard.DataTransformerConfig(
        id_val="organize",
        options={
            "excludeByName": {name: True for name in _POSSIBLE_COLUMNS if name not in shown},
            "indexByName": {column.source: place for place, column in enumerate(columns)},
            "renameByName": {column.source: column.title for column in columns if column.source != column.title},
        },
    )


def _override(panel: Panel, overrides: Sequence[Override]) -> None:
    for name, properties in overrides:
        if properties:
            values = [dashboard.DynamicConfigValue(key, value) for key, value in properties.items()]
            panel.override_by_name(name, values)


def _finished(panel: Panel, title: str, says: Says, size: tuple[int, int], no_value: str) -> Panel:
    width, height = size
    panel.title(title).description(says.text()).datasource(DATA_SOURCE).span(width).height(height)
    if no_value:
        panel.no_value(no_value)
    return panel
