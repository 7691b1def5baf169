"""`dpq top` through textual's Pilot: every key, its question, a server that dies and returns."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from kit.terminals import ENVIRONMENT, Terminal
from redis import Redis
from textual.pilot import Pilot
from textual.widgets import DataTable, Footer, Input, Static
from typer.testing import CliRunner

from dpq import DPQ, Push
from dpq.cli import app
from dpq.operations.workers import Doing
from dpq.protocol.keys import key_of
from dpq.server import Server
from dpq.top.app import Top
from dpq.top.questions import Question
from dpq.top.reader import Reader
from dpq.top.screens import Queues
from dpq.views import words
from dpq.views.sampler import Known, Named, Watch

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds come often, and see new names at once."""
    monkeypatch.setattr("dpq.top.app.EVERY_SECONDS", 0.05)
    monkeypatch.setattr("dpq.views.sampler.KNOWN_FOR", 0.0)


class Screen:
    """What a test sees of `dpq top`, and what it presses."""

    def __init__(self, top: Top, pilot: Pilot[None]) -> None:
        self.top, self.pilot = top, pilot

    async def until(self, condition: Callable[[], object], seen: Callable[[], object]) -> None:
        """Wait for a condition."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, seen()
            await asyncio.sleep(0.01)

    def text(self, name: str) -> str:
        """The text of a part of the screen."""
        return "".join(
            str(part.content) for part in self.top.screen.query(f"#{name}").results(Static)
        )

    async def shows(self, name: str, text: str) -> None:
        """Wait until a part shows a text."""
        await self.until(lambda: text in self.text(name), lambda: self.text(name))

    def row(self, number: int = 0) -> dict[str, str]:
        """A row of the table of queues, by the titles of its columns."""
        table = self.top.screen.query_one("#queues", DataTable)
        titles = [str(column.label) for column in table.ordered_columns]
        if number >= table.row_count:
            return dict.fromkeys(titles, "")
        return dict(zip(titles, map(str, table.get_row_at(number)), strict=True))

    async def has_read(self) -> None:
        """Wait for the first round."""
        await self.until(
            lambda: isinstance(self.top.screen, Queues) and self.row().get("verdict"),
            lambda: self.top.round,
        )

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other.

        Not by `Pilot.press`, which waits for a processor without work: a busy machine has none.
        """
        for key in keys:
            self.top.simulate_key(key)
            await self.pilot._wait_for_screen()

    async def asks(self) -> Question:
        """Wait until a question is asked."""

        def asked() -> bool:
            return isinstance(self.top.screen, Question) and self.top.screen.focused is not None

        await self.until(asked, lambda: self.top.screen)
        assert isinstance(self.top.screen, Question)
        return self.top.screen

    async def has_answered(self) -> None:
        """Wait until the question is gone."""
        await self.until(lambda: not isinstance(self.top.screen, Question), lambda: self.top.screen)

    async def focus(self, name: str) -> None:
        """Wait until a field or button has the focus."""

        def focused() -> bool:
            return bool(self.top.focused and self.top.focused.id == name)

        await self.until(focused, lambda: self.top.focused)

    async def keys(self) -> set[str]:
        """What the footer offers, once it is drawn: that comes after the rows."""
        footer = self.top.screen.query_one(Footer)
        await self.until(lambda: footer.children, lambda: "an empty footer")
        return {getattr(key, "description", "") for key in footer.children}


def seen(
    test: Callable[[Screen], Coroutine[Any, Any, None]],
    directory: Any,
    *,
    read_only: bool = False,
    size: tuple[int, int] = (120, 40),
) -> None:
    """Run a test of a terminal of some size."""

    async def run() -> None:
        top = Top(directory, "the server", read_only=read_only)
        async with top.run_test(size=size, notifications=True) as pilot:
            await test(Screen(top, pilot))

    asyncio.run(run())


def test_what_it_shows_of_queues_and_of_one(live: DPQ) -> None:
    """Rates, verdict, drain, closed groups and their reasons, what comes next, on both screens."""
    live.push("to die", 9)
    live.bury(live.pop().task, "x")
    live.push_many(Push(n, n, group="a") for n in range(5))
    live.delay_group("a", 90)
    live.push("[bold]soon[/]\x1b[2J", delay=600)

    async def test(screen: Screen) -> None:
        await screen.has_read()
        row = screen.row()
        assert row["queue"] == live.queue_name
        assert (row["backlog"], row["delayed"], row["dead"]) == ("5", "1", "1")
        assert row["closed"].startswith("1, 1 m")
        assert row["next"].startswith("opens 1 m")
        await screen.shows("panel", "closed: a  closed by hand, opens 1 m")
        live.push("more")
        await screen.until(lambda: screen.row()["in/s"] not in ("-", "0.0"), screen.row)
        live._session.run(live._operations.beat, "w1", "fast", "host", 7, 0, 2, 4.0)
        hangs = Doing([], 400_000, "slow-task")
        live._session.run(live._operations.beat, "w2", "slow", "host", 8, 1, 2, 4.0, hangs)
        await screen.press("enter")
        await screen.shows(
            "workers", "workers:\nslow: 1 of 2 run, HANGS: the longest for 6 m 40 s (99"
        )
        await screen.shows("workers", ": slow-task\nfast: 0 of 2 run")
        await screen.shows("counts", "ready 1   waiting 5   delayed 1   invisible 0   dead 1")
        await screen.shows("coming", r"[bold]soon[/]\u001b[2J")
        group = screen.top.screen.query_one("#groups", DataTable)
        assert [str(text) for text in group.get_row_at(0)[:2]] == ["a", "closed by hand"]
        first = str(group.get_row_at(0)[2])
        await screen.until(lambda: str(group.get_row_at(0)[2]) != first, lambda: first)
        await screen.press("escape")
        await screen.has_read()
        assert screen.row()["queue"] == live.queue_name

    seen(test, Named([live]), size=(180, 40))


def test_every_key_asks_and_then_acts(live: DPQ) -> None:
    """A No changes nothing, a Yes does what was asked; a field may say for how long."""
    live.push("to die", 9)
    live.bury(live.pop().task, "x")
    live.push("y", group="a")
    watch = Watch(live)

    def paused() -> str:
        return watch.read().survey.paused_until

    def closed() -> int:
        return watch.read().survey.closed

    checks: list[tuple[str, dict[str, str], Callable[[], bool]]] = [
        ("p", {}, lambda: paused() == "inf"),
        ("r", {}, lambda: not paused()),
        ("p", {"seconds": "90"}, lambda: paused().isdecimal()),
        ("d", {}, lambda: live.stats().dead == 0),
        ("c", {"group": "a"}, lambda: closed() == 1),
        ("o", {}, lambda: closed() == 0),  # the group that is closed is offered
    ]

    async def test(screen: Screen) -> None:
        await screen.has_read()
        for key, fields, done in checks:
            for answer in ("n", "y"):
                await screen.press(key)
                question = await screen.asks()
                assert not done(), key
                for name, value in fields.items():
                    question.query_one(f"#{name}", Input).value = value
                question.set_focus(None)  # a field would take the letter
                await screen.press(answer)
                await screen.has_answered()
            await screen.until(done, lambda key=key: key)  # type: ignore[misc]
            await screen.until(
                lambda: (
                    screen.top.details_of(live.queue_name)
                    and len(screen.top.details_of(live.queue_name).closed) == closed()
                ),  # type: ignore[union-attr]
                lambda: screen.top.round,
            )

    seen(test, Named([live]))


def test_by_enter_and_what_does_not_fit(live: DPQ) -> None:
    """Enter goes through the fields to Yes, and answers No without any; a fault is told."""
    live.push("x")
    watch = Watch(live)

    async def test(screen: Screen) -> None:
        await screen.has_read()
        await screen.press("p")
        await screen.asks()
        await screen.press("x", "enter")
        await screen.focus("yes")
        await screen.press("enter")
        await screen.until(lambda: screen.top._notifications, lambda: "nothing was said")
        assert "must be a number" in next(iter(screen.top._notifications)).message
        assert not watch.read().survey.paused_until
        await screen.press("r")
        await screen.asks()
        await screen.press("enter")
        await screen.has_answered()
        await screen.press("enter")
        await screen.shows("counts", "ready 1")
        await screen.press("p")
        await screen.asks()
        await screen.press("6", "0", "enter")
        await screen.focus("yes")
        await screen.press("enter")
        await screen.until(lambda: watch.read().survey.paused_until, lambda: "not paused")
        await screen.shows("counts", "paused: it is paused until ")

    seen(test, Named([live]))


def test_read_only(live: DPQ) -> None:
    """No key acts, and the footer names none."""
    live.push("x")

    async def test(screen: Screen) -> None:
        await screen.has_read()
        keys = await screen.keys()
        assert keys >= {"Details", "Hold", "Quit"}
        assert not keys & {"Pause", "Resume", "Replay", "Open", "Close"}
        await screen.press("p", "r", "d", "o", "c")
        assert not isinstance(screen.top.screen, Question)
        assert "read only" in screen.text("line")

    seen(test, Named([live]), read_only=True)


def test_a_server_that_dies_and_returns(directory: Path) -> None:
    """It says so and keeps what was read; an action fails; all goes on when the server is back."""
    server = Server.join(directory)
    client = Redis.from_url(server.url)
    with DPQ(client, "mails") as q:
        q.push("x")
        again: list[Server] = []

        async def test(screen: Screen) -> None:
            await screen.has_read()
            os.kill(server.pid, signal.SIGKILL)
            await screen.shows("line", "server away: the server has not answered since ")
            assert screen.row()["backlog"] == "1"
            await screen.press("r")
            await screen.asks()
            await screen.press("y")
            await screen.until(lambda: screen.top._notifications, lambda: "nothing was said")
            again.append(await asyncio.to_thread(Server.join, directory))
            await screen.shows("line", "the server")
            q.push("y")
            await screen.until(lambda: screen.row()["backlog"] == "2", screen.row)

        seen(test, Known(client))
    client.close()
    for each in (server, *again):
        each.close()


def test_it_reads_what_is_seen_and_nothing_while_held(
    live: DPQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 queues those in the window are read; none while it is held, suspended, or answers."""
    queues = [DPQ(live.redis, f"{live.queue_name}-{n:02}") for n in range(40)]
    read: list[str] = []
    monkeypatch.setattr(
        "dpq.views.sampler.Watch.steps",
        lambda watch, before=Watch.steps: (read.append(watch.queue.queue_name), before(watch))[1],
    )

    async def test(screen: Screen) -> None:
        await screen.has_read()
        assert len(set(read)) <= 12
        await screen.press("end")
        await screen.until(lambda: screen.row(39)["verdict"], lambda: read)
        assert len(set(read)) <= 24
        for stop, go in [
            (lambda: screen.top.action_hold(), lambda: screen.top.action_hold()),
            (
                lambda: screen.top.app_suspend_signal.publish(screen.top),
                lambda: screen.top.app_resume_signal.publish(screen.top),
            ),
        ]:
            stop()
            await screen.until(lambda: not screen.top._reader._busy.is_set(), lambda: "busy")
            read.clear()
            await asyncio.sleep(0.3)
            assert read == []
            go()
            await screen.until(lambda: read, lambda: "nothing was read")

    seen(test, Named(queues), size=(80, 14))


def test_filter_and_sort(live: DPQ) -> None:
    """`/` shows the names that have a text, `s` sorts by the next column, Esc shows all by name."""
    queues = [DPQ(live.redis, f"{live.queue_name}-{name}") for name in ("mails", "pages", "文字")]
    for count, each in enumerate(queues):
        each.push_many([Push(n) for n in range(count + 1)])

    async def test(screen: Screen) -> None:
        def names() -> list[str]:
            table = screen.top.screen.query_one("#queues", DataTable)
            return [str(table.rows[key].key.value).rpartition("-")[2] for key in table.rows]

        await screen.has_read()
        await screen.press("s")
        await screen.until(lambda: names() == ["文字", "pages", "mails"], names)
        assert screen.row()["backlog↓"] == "3"
        await screen.press("slash", *"-pag")
        await screen.until(lambda: names() == ["pages"], names)
        await screen.press("enter")
        assert isinstance(screen.top.screen, Queues)
        await screen.press("escape")
        await screen.until(lambda: names() == ["mails", "pages", "文字"], names)
        await screen.until(lambda: screen.row(2)["backlog"] == "3", names)

    seen(test, Named(queues))
    for each in queues:
        each.drop()


def test_damage_of_one_queue_is_its_own(live: DPQ, redis: Redis) -> None:
    """A queue whose parts cannot be read stops neither other queues nor its numbers."""
    live.push("x")
    heard = Reader(Named([live]), print, remembers=True)
    for part in ("history", "events"):
        redis.set(key_of(live.queue_name, part), "damage")
    found = heard.read([live.queue_name], live.queue_name)
    assert found.snapshots[live.queue_name].stats
    assert found.fault == ""
    assert "WRONGTYPE" in found.faults[live.queue_name]


def test_narrow_and_wide(live: DPQ) -> None:
    """Columns go when there is no room, the verdict last; names are cut; a question fits."""
    queue = DPQ(live.redis, f"{live.queue_name}-with-a-long-name")
    queue.push("x")

    async def test(screen: Screen) -> None:
        await screen.has_read()
        assert list(screen.row()) == ["queue", "verdict"]
        assert screen.row()["queue"].endswith("…")
        table = screen.top.screen.query_one("#queues", DataTable)
        assert table.virtual_size.width <= 40
        await screen.press("c")
        box = (await screen.asks()).query_one("#box")
        await screen.until(lambda: 0 < box.region.right <= 40, lambda: box.region)
        await screen.press("escape")
        await screen.pilot.resize_terminal(200, 30)
        await screen.until(lambda: len(screen.row()) == 12, screen.row)

    seen(test, Named([queue]), size=(40, 15))
    queue.drop()


def test_a_terminal(server: Server, live: DPQ) -> None:
    """The command draws on a terminal and ends at `q`; without one it says what to give. A queue
    that does not exist is refused."""
    live.push("x")
    command = [sys.executable, "-m", "dpq", "top", live.queue_name, "--url", server.url]
    with Terminal() as terminal:
        program = subprocess.Popen(
            command,
            stdin=terminal.theirs,
            stdout=terminal.theirs,
            stderr=terminal.theirs,
            env=ENVIRONMENT,
        )
        terminal.hand_over()
        terminal.wait_for("Quit")
        os.write(terminal._ours, b"q")
        terminal.read_all()
        assert program.wait(60) == 0
    command[4] += "s"
    with Terminal() as terminal:
        ours = {"stdin": terminal.theirs, "stderr": terminal.theirs, "env": ENVIRONMENT}
        assert subprocess.run(command, timeout=60, check=False, **ours).returncode == 1
        terminal.hand_over()
        terminal.wait_for(f"did you mean '{live.queue_name}'")
    result = CliRunner().invoke(app, ["top", "--url", server.url])
    assert result.exit_code == 1
    assert "dpq stats" in result.stderr


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind error names the extra."""
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.delitem(sys.modules, "dpq.top.app")
    result = CliRunner().invoke(app, ["top"])
    assert result.exit_code == 1
    assert "extra 'top'" in result.stderr


