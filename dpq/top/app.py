"""The program `dpq top`: it asks for rounds, shows them, and acts after a question."""

import os
import select
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from redis.exceptions import RedisError
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from dpq import DPQError
from dpq.model.display import shown
from dpq.model.verdict import server_away
from dpq.top.questions import ACTIONS, Action, Question
from dpq.top.reader import Details, Reader, Round
from dpq.top.screens import Queues, _Screen
from dpq.views.sampler import Directory, Snapshot

EVERY_SECONDS = 1.0
"""Seconds between two rounds."""

HANGUP = 129
"""The exit status if the terminal is gone, which is what a shell reports for SIGHUP."""


def _terminal_is_gone() -> bool:
    """Return True if the terminal was closed without a SIGHUP: reading it would spin for ever."""
    if sys.__stdin__ is None or not hasattr(select, "poll"):
        return False
    try:
        poll = select.poll()
        poll.register(sys.__stdin__, 0)
        return bool(poll.poll(0))  # with no event asked for, poll reports only a hang-up
    except (OSError, ValueError):
        return False  # in a test stdin has no file number


class Heard(Message):
    """A round that was read."""

    def __init__(self, found: Round) -> None:
        """Take the round."""
        super().__init__()
        self.found = found


class Done(Message):
    """The end of an action, and its result."""

    def __init__(self, said: str, *, failed: bool) -> None:
        """Take the text to show."""
        super().__init__()
        self.said, self.failed = said, failed


class Top(App[None]):
    """Queues on the terminal."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "dpq top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "hold", "Hold"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, directory: Directory, server: str, *, read_only: bool = False) -> None:
        """Take the queues and the name of the server; with `read_only` no key may act."""
        super().__init__()
        self._server, self._read_only = server, read_only
        self._reader = Reader(
            directory, lambda found: self.post_message(Heard(found)), remembers=not read_only
        )
        self._snapshots: dict[str, Snapshot] = {}
        self._details: Details | None = None
        self._away_since: float | None = None
        self._held = self._suspended = False
        self._acting = ""
        self.round = Round()

    def on_mount(self) -> None:
        """Begin to read."""
        self._reader.start()
        self.app_suspend_signal.subscribe(self, lambda _: self._suspend(True))
        self.app_resume_signal.subscribe(self, lambda _: self._suspend(False))
        self.push_screen(Queues())
        self.set_interval(EVERY_SECONDS, self._tick)

    def on_unmount(self) -> None:
        """End the reader."""
        self._reader.close()

    # What is known

    @property
    def fault(self) -> str:
        """Return why the server did not answer the last round; "" if it has answered."""
        return self.round.fault

    def now_ms(self) -> float:
        """Return the server's clock, by its last answer."""
        return time.time() * 1000 + self.round.ahead_ms

    def known(self, name: str) -> tuple[Snapshot | None, str]:
        """Return the last snapshot of a queue, and the reason why it cannot be read now."""
        return self._snapshots.get(name), self.round.faults.get(name, "")

    def details_of(self, name: str) -> Details | None:
        """Return the details of a queue, if they were read last."""
        return self._details if self._details and self._details.name == name else None

    def line(self) -> str:
        """Name the server, and say what is wrong."""
        if self.fault:
            away = server_away("", shown(self.fault), self._away_since or time.time() * 1000)
            return f"{away}; this is what it said last"
        mode = " · read only" if self._read_only else ""
        held = " · held: nothing is read" if self._held else ""
        acting = f" · {self._acting}…" if self._acting else ""
        return f"{self._server}{mode}{held}{acting}"

    # Rounds

    def _suspend(self, suspended: bool) -> None:
        self._suspended = suspended

    def _tick(self) -> None:
        if not self.is_headless and _terminal_is_gone():
            os._exit(HANGUP)  # an orderly end would write to the terminal, and wait for its answer
        self.ask()
        self._show()

    def ask(self) -> None:
        """Ask for a round, unless the terminal is held or suspended, or one is under way."""
        screen = self._shown()
        if screen and screen.ready and not self._held and not self._suspended:
            self._reader.ask(screen.to_read(), screen.chosen())

    def _shown(self) -> _Screen | None:
        """Return the screen that shows queues, though a question may stand before it."""
        screens = [each for each in self.screen_stack if isinstance(each, _Screen)]
        return screens[-1] if screens else None

    def _show(self) -> None:
        screen = self._shown()
        if screen and screen.ready:
            screen.show()

    def on_heard(self, heard: Heard) -> None:
        """Show a round; if the server did not answer, show its answers before that."""
        found, first = heard.found, self.round.names is None
        if found.fault and self._away_since is None:
            self._away_since = time.time() * 1000
        if not found.fault:
            self._away_since = None
        names = self.round.names if found.names is None else found.names
        self.round = found._replace(names=names)
        self._snapshots.update(found.snapshots)
        for name in set(self._snapshots) - set(names or ()):
            del self._snapshots[name]
        self._details = found.details or self._details
        self._show()
        if first and not found.fault:
            self.ask()  # the first round could ask only for the names

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no key that acts if the program is read-only."""
        return not (action == "act" and self._read_only)

    def action_hold(self) -> None:
        """Read nothing until the key is pressed again."""
        self._held = not self._held
        self._tick()

    def action_act(self, name: str) -> None:
        """Ask before an action on the chosen queue, and then do it."""
        screen = self._shown()
        if self._read_only or screen is None or self.screen is not screen or not screen.chosen():
            return
        queue, action = screen.chosen(), ACTIONS[name]
        snapshot, _ = self.known(queue)
        dead = snapshot.stats.dead if snapshot else 0
        if name == "replay" and not dead:
            self.notify(f"{shown(queue)} has no dead letters", markup=False)
            return

        def answer(said: Mapping[str, str] | None) -> None:
            if said is not None:
                self._begin(action, queue, said)

        known = {"group": screen.group()} if screen.group() else {}
        self.push_screen(Question(action, queue, dead, known), answer)

    def _begin(self, action: Action, name: str, said: Mapping[str, str]) -> None:
        self._acting = f"{action.name} {shown(name)}"
        threading.Thread(
            target=self._act, args=(action, name, said), daemon=True, name="dpq-top-act"
        ).start()

    def _act(self, action: Action, name: str, said: Mapping[str, str]) -> None:
        """Act in a thread of its own, since many dead letters take a while."""
        done: Any
        try:
            queue = self._reader.queue(name)
            done = Done("it is gone", failed=True)
            if queue is not None:
                done = Done(action.act(queue, said), failed=False)
        except (DPQError, RedisError, OSError) as error:
            done = Done(str(error) or type(error).__name__, failed=True)
        done.said = shown(f"{name}: {done.said}")
        self.post_message(done)

    def on_done(self, done: Done) -> None:
        """Say how an action has ended, and read its queue again."""
        self._acting = ""
        severity = "error" if done.failed else "information"
        self.notify(done.said, severity=severity, markup=False)  # type: ignore[arg-type]
        self.ask()
