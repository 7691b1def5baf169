"""The operations that find damage in a queue. No I/O."""

from dpq.model.reports import Problem
from dpq.model.task import P
from dpq.script import replies
from dpq.script.command import Steps
from dpq.verbs.base import PAGE
from dpq.verbs.batches import BatchOperations

CHECKED_PARTS = (
    *(("check_limits", part) for part in ("settings", "limits", "tracked", "invisible")),
    *(("check", part) for part in ("waiting", "ready", "groups", "meta", "payload")),
    *(("check", part) for part in ("delayed", "invisible", "dead", "keys")),
    *(("check", part) for part in ("followers", "events")),
)
"""The scripts and parts that a check goes over."""


class CheckOperations(BatchOperations[P]):
    """Every operation about damage."""

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        return (yield from self._types()) or (yield from self._walk())

    def _types(self) -> Steps[list[Problem]]:
        """Find keys of another type, which no other script can read."""
        return self._ask("types", [], lambda reply: replies.read_problems(reply)[1])

    def _walk(self) -> Steps[list[Problem]]:
        """Go over everything that is stored in bounded steps."""
        problems: list[Problem] = []
        for name, part in CHECKED_PARTS:
            cursor = ""
            while cursor != "0":
                args = [self._now(), part, cursor or "0", PAGE]
                cursor, found = yield self._command(name, args, replies.read_problems)
                problems += found
        problems += yield from self.check_batches()
        return problems
