"""The operations on the batches of a queue, and the check of what they count. No I/O."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dpq.model.batch_state import BatchState
from dpq.model.errors import BatchNotFoundError
from dpq.model.reports import Problem
from dpq.model.task import P
from dpq.model.validation import label, whole_number
from dpq.script import replies
from dpq.script.batch_texts import read_batch_state
from dpq.script.command import Steps, same
from dpq.script.values import read_texts
from dpq.verbs.base import PAGE, OperationsBase

_LOOKS = 3
"""Counts of the tasks of a batch that changes meanwhile, in one check."""

STATES = ("waiting", "ready", "delayed", "invisible", "dead")

CHECKED_PARTS = (
    *(("check_limits", part) for part in ("settings", "limits", "tracked", "invisible")),
    *(("check", part) for part in ("groups", "meta", "sums", *STATES)),
    *(("check", part) for part in ("payload", "keys", "followers", "events")),
)
"""The scripts and parts that a check goes over; after sound sums, no state."""

CHECK_PAGE = 200
"""Entries in one call of a check, which holds the server for about 2 ms."""

_Counts = Mapping[tuple[str, str], int]
"""Tasks by batch and kind: left or dead."""


class BatchOperations(OperationsBase[P]):
    """Every operation on batches."""

    def batch(self, name: str) -> Steps[BatchState]:
        """Read one batch."""
        args = ["", label("batch", name)]
        texts = yield self._command("batches", args, read_texts)
        state = read_batch_state(name, texts[2])
        if state is None:
            raise BatchNotFoundError(name, self.queue_name)
        return state

    def batches(self, count: int) -> Steps[list[BatchState]]:
        """List batches, the one that changed last first."""
        count = whole_number("n", count, 0, 10**9)
        texts = yield from self._texts()
        states = [read_batch_state(name, text) for name, text in texts.items()]
        found = [state for state in states if state is not None]
        return sorted(found, key=lambda state: (state.changed_at, state.name), reverse=True)[:count]

    def seal(self, name: str) -> Steps[BatchState]:
        """Seal a batch without a task that waits for its end."""
        args = [self._now(), label("batch", name)]
        while True:
            reply: list[Any] = yield self._command("seal_batch", args, same)
            if reply[0] == 0:
                break
            yield from self.open(create=True)  # there is no queue yet, or it was dropped meanwhile
        state = read_batch_state(name, read_texts(reply[1:])[0])
        assert state is not None  # noqa: S101 - the script has just written it
        return state

    def _texts(self) -> Steps[dict[str, str]]:
        """Read the texts of all batches, and the entries of their list."""
        texts: dict[str, str] = {}
        cursor = "0"
        while True:
            cursor, *page = yield self._command("batches", [cursor], read_texts)
            texts.update(zip(page[::2], page[1::2], strict=True))
            if cursor == "0":
                return {name: text for name, text in texts.items() if name[:1] != "\t"}

    # Damage

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        problems: list[Problem]
        _, problems = yield self._command("types", [], replies.read_problems)
        if problems:  # no other script can read a key of another type
            return problems
        sound = False
        for name, part in CHECKED_PARTS:
            cursor = "0" if sound and part in STATES else ""
            while cursor != "0":
                args = [self._now(), part, cursor or "0", CHECK_PAGE]
                cursor, found = yield self._command(name, args, replies.read_problems)
                problems += found
                if part == "sums":
                    sound, cursor = cursor == "0" and not problems, "0"
        problems += yield from self.check_batches()
        return problems

    def check_batches(self) -> Steps[list[Problem]]:
        """Compare what batches count with their tasks."""
        problems: list[Problem] = []
        before = yield from self._texts()
        unsure: set[str] | None = None  # None: all of them
        seen: dict[str, Problem] = {}
        for _ in range(_LOOKS):
            counts = yield from self._counted()
            after = yield from self._texts()
            names = {name for name, _ in counts} | before.keys() | after.keys()
            names = names if unsure is None else names & unsure
            moved = {name for name in names if before.get(name) != after.get(name)}
            unsure, found = moved, {}
            for name in sorted(names - moved):
                text = after.get(name, "")
                if not (problem := _problem_of(name, text, counts)):
                    continue
                if seen.get(name) != problem:
                    found[name] = problem
                    unsure.add(name)
                    continue
                problems.append(problem)
            if not unsure:
                break
            before, seen = after, found
        return problems

    def _counted(self) -> Steps[Counter[tuple[str, str]]]:
        kinds: dict[str, tuple[str, str]] = {}  # by id: two pages may name the same task
        cursor = "0"
        while True:
            cursor, *page = yield self._command("check_batches", [cursor, PAGE], read_texts)
            kinds.update(
                (id_, (batch, kind))
                for id_, batch, kind in zip(page[::3], page[1::3], page[2::3], strict=True)
            )
            if cursor == "0":
                return Counter(kinds.values())


def _problem_of(name: str, text: str, counts: _Counts) -> Problem | None:
    """Compare a batch, by its text, with the number of its tasks."""
    state = read_batch_state(name, text)
    left, dead = counts.get((name, "left"), 0), counts.get((name, "dead"), 0)
    if state is None:
        detail = f"unreadable: {text!r}" if text else "not stored"
        return Problem(kind="batch miscounted", subject=name, detail=f"{detail}, {left} left")
    if state.left != left or state.dead < dead:
        says = f"says {state.left} left and {state.dead} dead"
        detail = f"{says}, and has {left} and {dead}"
        return Problem(kind="batch miscounted", subject=name, detail=detail)
    if state.sealed and not left and not state.finished:
        return Problem(kind="batch not finished", subject=name)
    return None
