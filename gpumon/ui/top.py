"""`gpumon top`: cards, links and jobs in a terminal, with the reasons of the chosen job. Needs the extra `top`.

The screen is made of plain text rows, so that it works over SSH, at 80x24 and without colour: every mark has a word
or a letter beside it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from gpumon.model.errors import GpumonError
from gpumon.ui import phrases
from gpumon.ui.colours import CLASS_COLOURS, STATE_COLOURS
from gpumon.ui.state_json import GpuState, JobState, State

PERIOD_S = 1.0
_BAR = 10  # cells of a link bar
_PAST = 12  # seconds of a sparkline
_SPARKS = " ▁▂▃▄▅▆▇█"
_SPLIT = 30  # cells of the time split

_JOB_COLUMNS = ("state", "GPUs", "what holds it back", "sure", "for", "step", "tenant")
_CARD_COLUMNS = ("GPU", "in", "out", "past", "job", "power", "memory", "°C", "busy")
# How jobs can be sorted; the first is the default.
_ORDERS: dict[str, Callable[[JobState], object]] = {
    "urgency": phrases.urgency,
    "cards": lambda job: job.gpus,
    "power": lambda job: -_number(job.power_watts),
    "tenant": lambda job: (job.tenant, job.gpus),
}

HELP = """\
[b]gpumon top[/b]

up, down   choose a job        s   sort by urgency, cards, power, tenant
enter, d   its reasons, longer c   cards or jobs get the keys
h, ?       this help           q   quit

[b]in[/b] and [b]out[/b]: traffic of the card's own PCIe link (NVLink where there is one) against what it can carry.
[b]past[/b]: the fuller direction over the last 12 seconds. [b]busy[/b]: a kernel ran; waiting for data counts as busy.
"""


class Help(ModalScreen[None]):
    """The keys and columns in words."""

    BINDINGS: ClassVar = [Binding("escape,q,h,question_mark,enter", "dismiss", "back")]
    CSS = "Help { align: center middle; } Help > Static { width: 78; border: round $accent; padding: 1 2; }"

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static(HELP)


class Top(App[None]):
    """The screen. `fetch` brings the newest state, or raises GpumonError; it is called in a worker thread."""

    TITLE = "gpumon top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        Binding("q", "quit", "quit"),
        Binding("s", "sort", "sort"),
        Binding("d", "longer", "details"),
        Binding("c", "switch", "cards/jobs"),
        Binding("h,question_mark", "help", "help"),
    ]
    CSS = """
    #head { height: auto; }
    #simulated { background: #F0E442; color: black; text-style: bold; height: 1; display: none; }
    #jobs { height: auto; max-height: 40%; min-height: 3; }
    #reasons { height: 1fr; min-height: 5; border-top: solid $primary-darken-2; }
    #reasons.longer { height: 3fr; }
    #cards { height: auto; max-height: 45%; }
    """

    def __init__(self, fetch: Callable[[], State | None], *, colour: bool = True) -> None:
        super().__init__(ansi_color=not colour)
        self._fetch = fetch
        self._colour = colour
        self._order = next(iter(_ORDERS))
        self._chosen = ""
        self._state: State | None = None
        self._past: dict[str, deque[float]] = {}

    def compose(self) -> ComposeResult:
        """Lay out head, jobs, reasons and cards."""
        yield Static("waiting for the first second ...", id="head")
        yield Static(" SIMULATED NODE: these cards and jobs do not exist. Every figure is computed.", id="simulated")
        yield DataTable(id="jobs", cursor_type="row", zebra_stripes=False)
        with VerticalScroll(id="reasons"):
            yield Static("", id="text")
        yield DataTable(id="cards", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Name the columns and begin to ask."""
        self.query_one("#jobs", DataTable).add_columns(*_JOB_COLUMNS)
        self.query_one("#cards", DataTable).add_columns(*_CARD_COLUMNS)
        self.query_one("#jobs", DataTable).focus()
        self.set_interval(PERIOD_S, self._ask)
        self._ask()

    def _ask(self) -> None:
        self.run_worker(self._bring, thread=True, exclusive=True, group="fetch")

    def _bring(self) -> None:
        try:
            state = self._fetch()
        except GpumonError as error:
            self.call_from_thread(self._say, f"no figures: {error}")
            return
        if state is not None:
            self.call_from_thread(self.show, state)

    def _say(self, sentence: str) -> None:
        self.query_one("#head", Static).update(Text(sentence, "bold"))

    def show(self, state: State) -> None:
        """Draw a state."""
        self._state = state
        node = state.node
        fault = f"   driver: {node.nvml_fault}" if node.nvml_fault else ""
        head = f"{phrases.one_line(node.hostname)}   {node.gpus_up} of {node.gpus_expected} cards answer{fault}"
        self.query_one("#head", Static).update(Text(f"{head}   sorted by {self._order}", "bold"))
        self.query_one("#simulated").display = node.simulated
        self._show_jobs(state)
        self._show_cards(state)
        self._show_reasons()

    def _show_jobs(self, state: State) -> None:
        table = self.query_one("#jobs", DataTable)
        jobs = sorted(state.jobs, key=_ORDERS[self._order])  # type: ignore[arg-type]  # every order's keys compare
        table.clear()
        for job in jobs:
            table.add_row(
                self._coloured(f" {job.job_class:13}", CLASS_COLOURS[job.job_class]),
                phrases.ranges(job.gpus),
                phrases.headline(job, state.gpus),
                phrases.percent(job.confidence),
                phrases.duration(_number(job.class_age_seconds)),
                "-" if math.isnan(job.step_seconds) else f"{job.step_seconds:.2f} s",
                phrases.one_line(job.tenant),
                key=job.gpu_job,
            )
        names = [job.gpu_job for job in jobs]
        if names:
            table.move_cursor(row=names.index(self._chosen) if self._chosen in names else 0)

    def _show_cards(self, state: State) -> None:
        table = self.query_one("#cards", DataTable)
        at = table.cursor_row
        table.clear()
        classes = {gpu: job.job_class for job in state.jobs for gpu in job.gpus}
        for card in state.gpus:
            link = card.nvlink or card.pcie
            past = self._past.setdefault(card.uuid, deque(maxlen=_PAST))
            past.append(max(_number(link.rx.saturation_ratio), _number(link.tx.saturation_ratio)))
            job_class = classes.get(card.gpu, "")
            if not card.up:
                table.add_row(str(card.gpu), Text(f"does not answer ({card.fault})", "bold reverse"))
                continue
            table.add_row(
                f"{card.gpu} {_short(card)}",
                _bar(link.rx.bytes_per_second, link.rx.saturation_ratio),
                _bar(link.tx.bytes_per_second, link.tx.saturation_ratio),
                "".join(_SPARKS[min(8, round(ratio * 8))] for ratio in past),
                self._coloured(job_class or "-", CLASS_COLOURS.get(job_class, "")),
                f"{phrases.figure(card.power_watts)}/{phrases.figure(card.power_limit_watts)} W",
                _memory(card),
                phrases.figure(card.temperature_celsius),
                "-" if math.isnan(card.utilization_ratio) else phrases.percent(card.utilization_ratio),
            )
        if state.gpus:
            table.move_cursor(row=min(at, len(state.gpus) - 1))

    def _show_reasons(self) -> None:
        state = self._state
        assert state is not None  # a state is shown
        job = next((one for one in state.jobs if one.gpu_job == self._chosen), None)
        if job is None:
            job = next(iter(sorted(state.jobs, key=phrases.urgency)), None)
        text = Text("No job uses these cards." if job is None else "")
        if job is not None:
            text.append(f"{phrases.headline(job, state.gpus)}\n", "bold")
            if job.time_ratio:
                for name, _, share in phrases.shares(job):
                    text.append_text(self._coloured("█" * round(share * _SPLIT), STATE_COLOURS[name]))
                told = (f"{word} {phrases.percent(share)}" for _, word, share in phrases.shares(job))
                text.append("  " + ", ".join(told) + "\n")
            for sentence in job.evidence:
                text.append(f" - {sentence}\n")
            for sentence in phrases.advice(job):
                text.append(f" > {sentence}\n")
            if job.against:
                text.append(f"Would prove it wrong: {job.against}\n", "dim")
            text.append(f"{job.gpu_job}   {phrases.names(job)}", "dim")
        self.query_one("#text", Static).update(text)

    def _coloured(self, text: str, colour: str) -> Text:
        return Text(text, colour if self._colour and colour else "")

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Remember the chosen job and show its reasons."""
        if event.data_table.id == "jobs" and event.row_key.value and event.data_table.has_focus:
            self._chosen = event.row_key.value
            if self._state is not None:
                self._show_reasons()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a job shows more of its reasons."""
        if event.data_table.id == "jobs":
            self.action_longer()

    def action_sort(self) -> None:
        """Take the next order."""
        names = list(_ORDERS)
        self._order = names[(names.index(self._order) + 1) % len(names)]
        if self._state is not None:
            self.show(self._state)

    def action_longer(self) -> None:
        """Give the reasons more room, or less again."""
        self.query_one("#reasons").toggle_class("longer")

    def action_switch(self) -> None:
        """Give the keys to the other table."""
        other = "#cards" if self.query_one("#jobs").has_focus else "#jobs"
        self.query_one(other).focus()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())


def _bar(bytes_per_second: float, ratio: float) -> str:
    """Return a link's bar and rate: empty and "-" where it was not seen."""
    if math.isnan(ratio):
        return f"{'-':>{_BAR}}     "
    filled = min(_BAR, round(ratio * _BAR))
    return f"{'█' * filled}{'·' * (_BAR - filled)} {bytes_per_second / 1e9:4.1f}"


def _memory(card: GpuState) -> str:
    if card.memory_shared_with_host:
        return "shared with host"
    return f"{phrases.figure(card.memory_used_bytes, 2**30)}/{phrases.figure(card.memory_total_bytes, 2**30)} GiB"


def _short(card: GpuState) -> str:
    name = phrases.one_line(card.name)
    for prefix in ("NVIDIA ", "GeForce "):
        name = name.removeprefix(prefix)
    return name[:14]


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
