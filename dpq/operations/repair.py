"""The operations that find and mend damage in a queue. No I/O."""

from typing import Any

from dpq.model.reports import Problem
from dpq.model.task import P
from dpq.operations.base import PAGE
from dpq.operations.batches import BatchOperations
from dpq.protocol import replies
from dpq.protocol.command import Steps
from dpq.protocol.refusals import Code

CHECKED_PARTS = (
    # All other parts read these.
    *(("check_limits", part) for part in ("settings", "limits", "kept")),
    ("check", "waiting"),  # first: the other parts take the next heads of groups from it
    *(("check", part) for part in ("ready", "groups", "meta", "payload")),
    *(("check", part) for part in ("delayed", "invisible", "dead", "keys", "errors")),
    *(("check", part) for part in ("followers", "events")),
    *(("check_limits", part) for part in ("tracked", "invisible")),
)
"""The scripts and parts that a check goes over; a repair needs this order."""

OTHER_FAMILY = str(int(Code.OTHER_FAMILY))
"""The cursor in the reply of `check_limits` to a client that does not know the whole family."""


class RepairOperations(BatchOperations[P]):
    """Every operation about damage."""

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        return (yield from self._types()) or (yield from self._walk())

    def repair(self) -> Steps[list[Problem]]:
        """Repair everything that is stored."""
        removed = yield from self._types(remove=True)
        if self.conf in {problem.subject for problem in removed}:
            yield from self.open(create=True)
        mended = yield from self._walk(mends=True)
        if any(each.kind == "settings lost" and each.subject == "format" for each in mended):
            yield from self.open(create=True)
        return removed + mended

    def _types(self, *, remove: bool = False) -> Steps[list[Problem]]:
        """Find keys of another type, which no other script can read; `remove` removes them."""
        args = [self._now(), int(remove), 1]
        return self._ask("types", args, lambda reply: replies.read_problems(reply)[1])

    def _walk(self, *, mends: bool = False) -> Steps[list[Problem]]:
        """Go over everything that is stored in bounded steps; `mends` mends what is found."""
        problems: list[Problem] = []
        for name, part in CHECKED_PARTS:
            problems += yield from self._walk_part(name, part, mends=mends)
        problems += yield from self.check_batches(mends=mends)
        return problems

    def _walk_part(self, name: str, part: str, *, mends: bool) -> Steps[list[Problem]]:
        problems: list[Problem] = []
        cursor = ""
        while cursor != "0":
            args = [self._now(), part, cursor or "0", PAGE, int(mends)]
            cursor, found = yield self._command(name, args, replies.read_problems)
            problems += found
            if cursor == OTHER_FAMILY:
                yield from self.learn_kin()
                cursor = ""
            elif mends and any(each.kind == "not in its family" for each in found):
                yield from self.learn_kin(join=True)
        return problems

    def mend_followers(self) -> Steps[Any]:
        """Let tasks run that wait for tasks which are not stored; an import ends with this."""
        return self._walk_part("check", "followers", mends=True)
