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
        problems: list[Problem]
        _, problems = yield self._command("types", [], replies.read_problems)
        if problems:  # no other script can read a key of another type
            return problems
        for name, part in CHECKED_PARTS:
            cursor = ""
            while cursor != "0":
                args = [self._now(), part, cursor or "0", PAGE]
                cursor, found = yield self._command(name, args, replies.read_problems)
                problems += found
        problems += yield from self.check_batches()
        return problems
