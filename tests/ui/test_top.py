"""The terminal view, driven by its keys; and the state that a daemon sends, read back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from gpumon.model.errors import GpumonError
from gpumon.model.view import NodeView
from gpumon.ui import state_json
from gpumon.ui.state_json import State
from gpumon.ui.state_reading import state_of
from gpumon.ui.top import Help, Top
from tests import views

Step = Callable[[Top, "Pilot[None]"], Awaitable[None]]


def drive(view: NodeView | None, act: Step, size: tuple[int, int] = (100, 40), **options: bool) -> None:
    """Show a view, act, quit."""
    state = None if view is None else state_json.state(view)

    async def session() -> None:
        app = Top(lambda: state, **options)
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(session())


def text_of(app: Top, name: str) -> str:
    """Return the text of a static part."""
    return str(app.query_one(name, Static).render())


def rows(app: Top, name: str) -> list[str]:
    """Return a table's rows as text."""
    table = app.query_one(name, DataTable)
    return [" | ".join(str(cell) for cell in table.get_row_at(n)) for n in range(table.row_count)]


def test_shows_jobs_cards_and_reasons() -> None:
    """The job in trouble stands first, with its reasons; every card has a row."""

    async def act(app: Top, _: Pilot[None]) -> None:
        assert "communication" in rows(app, "#jobs")[0]
        assert len(rows(app, "#cards")) == 8
        state = app._state
        assert state is not None
        job = next(one for one in state.jobs if one.job_class == "communication")
        assert job.evidence[0] in text_of(app, "#text")

    drive(views.geforce(), act)


def test_choosing_another_job_shows_its_reasons() -> None:
    """Down moves to the next job, and the reasons follow; the choice survives the next second."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        before = text_of(app, "#text")
        await pilot.press("down")
        await pilot.pause()
        chosen = text_of(app, "#text")
        assert chosen != before
        assert app._state is not None
        app.show(app._state)
        await pilot.pause()
        assert text_of(app, "#text") == chosen

    drive(views.crowded(), act)


def test_sorting_help_details_and_the_other_table() -> None:
    """s takes the next order, h shows the keys, d gives the reasons room, c changes the table."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        assert "sorted by urgency" in text_of(app, "#head")
        await pilot.press("s")
        assert "sorted by cards" in text_of(app, "#head")
        await pilot.press("d")
        assert app.query_one("#reasons").has_class("longer")
        await pilot.press("c")
        assert app.query_one("#cards").has_focus
        await pilot.press("h")
        assert isinstance(app.screen, Help)
        await pilot.press("escape")
        assert not isinstance(app.screen, Help)

    drive(views.crowded(), act)


NODES = (views.geforce, views.sxm, views.mig, views.lost_card, views.no_driver, views.no_jobs)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60)])
@pytest.mark.parametrize("make", [*NODES, views.crowded, views.hostile])
def test_every_node_at_every_size(make: Callable[[], NodeView], size: tuple[int, int]) -> None:
    """All kinds of node are drawn, down to 80x24, in colour and without, and q quits."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        assert len(rows(app, "#cards")) == len(make().cards)
        await pilot.press("q")

    drive(make(), act, size)
    drive(make(), act, size, colour=False)


def test_before_the_first_second_and_without_a_daemon() -> None:
    """No state yet, and a daemon that went away, are each a sentence."""

    async def waiting(app: Top, _: Pilot[None]) -> None:
        assert "waiting for the first second" in text_of(app, "#head")

    drive(None, waiting)

    def gone() -> State:
        raise GpumonError("http://x: no daemon answers")

    async def session() -> None:
        app = Top(gone)
        async with app.run_test() as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert "no figures: http://x: no daemon answers" in text_of(app, "#head")

    asyncio.run(session())


def same(left: object, right: object) -> bool:
    """Compare deeply, NaN equal to NaN."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if hasattr(left, "__struct_fields__"):
        return type(left) is type(right) and all(
            same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__
        )
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


@pytest.mark.parametrize("make", [*NODES, views.hostile])
def test_the_state_reads_back(make: Callable[[], NodeView]) -> None:
    """What a daemon sends becomes the same state again, missing numbers included."""
    state = state_json.state(make())
    assert same(state_of(state_json.document(make()).body), state)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"{}", b'{"schema":2}', b'{"schema":1,"jobs":5}'])
def test_other_documents_are_refused(document: bytes) -> None:
    """What is no gpumon state is refused in one sentence."""
    with pytest.raises(GpumonError, match=r"schema|no gpumon state"):
        state_of(document)
