"""The operations on the batches of a queue, and the check of what they count. No I/O."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from dpq.model.errors import BatchNotFoundError
from dpq.model.reports import BatchState, Problem
from dpq.model.task import P
from dpq.model.validation import label, whole_number
from dpq.script import replies
from dpq.script.command import Steps, same
from dpq.script.replies import read_batch_state
from dpq.script.values import in_rows, read_texts
from dpq.verbs.base import OperationsBase

_LOOKS = 3
"""Counts of the tasks of a batch that changes meanwhile, in one check."""

STATES = ("waiting", "ready", "delayed", "invisible", "dead")

CHECKED_PARTS = (
    *("settings", "limits", "tracked", "leases", "groups", "meta", "sums", *STATES),
    *("payload", "keys", "followers", "events"),
)
"""The parts that a check goes over; after sound sums, no state."""

CHECK_PAGE = 200
"""Entries in one call of a check, which holds the server for about 2 ms."""

_Counts = Mapping[tuple[str, str], int]
"""Tasks by batch and kind: left or dead."""


class BatchOperations(OperationsBase[P]):
    def batch(self, name: str) -> Steps[BatchState]:
        args = ["", label("batch", name)]
        texts = yield self._command("batches", args, read_texts)
        state = read_batch_state(name, texts[2])
        if state is None:
            raise BatchNotFoundError(name, self.queue_name)
        return state

    def batches(self, count: int) -> Steps[list[BatchState]]:
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
        pages = yield from self._pages("batches", lambda cursor: [cursor], read_texts)
        rows = (row for page in pages for row in in_rows(page, 2))
        return {name: text for name, text in rows if name[:1] != "\t"}

    # Damage

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        problems: list[Problem]
        _, problems = yield self._command("types", [], replies.read_problems)
        if problems:  # no other script can read a key of another type
            return problems
        sound = False
        for part in CHECKED_PARTS:
            args = partial(self._of_part, part)
            if part == "sums":
                differ, _ = yield self._command("check", args("0"), replies.read_problems)
                sound = differ == "0" and not problems
            elif not (sound and part in STATES):
                for (found,) in (yield from self._pages("check", args, replies.read_problems)):
                    problems += found
        problems += yield from self.check_batches()
        return problems

    def _of_part(self, part: str, cursor: str) -> list[Any]:
        return [self._now(), part, cursor, CHECK_PAGE]

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
        pages = yield from self._pages("check", partial(self._of_part, "batches"), read_texts)
        rows = (row for page in pages for row in in_rows(page, 3))
        kinds = {id_: (batch, kind) for kind, id_, batch in rows}  # two pages may name one task
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
