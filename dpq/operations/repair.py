"""The operations that find and mend damage in one partition. No I/O."""

from collections.abc import Iterable

from dpq.model.reports import Problem
from dpq.model.schedule import computable
from dpq.model.task import P
from dpq.operations.base import PAGE, PartitionBase
from dpq.protocol import replies
from dpq.protocol.command import Steps
from dpq.protocol.keys import key_of

CHECKED_PARTS = (
    *(("check", part) for part in ("meta", "ready", "delayed", "invisible", "waiting", "dead")),
    *(("check", part) for part in ("closed", "payload", "keys", "groups")),
    *(("check_limits", part) for part in ("settings", "limits", "kept")),
    *(("check_limits", part) for part in ("tracked", "gates", "invisible")),
)

REPAIRED_PARTS = (
    # All other parts read these.
    *(("repair_limits", part) for part in ("settings", "limits", "kept")),
    ("repair", "waiting"),  # first: the other parts take the next heads of groups from it
    ("repair_limits", "gates"),  # an unreadable gate would keep a group from being opened
    *(("repair", part) for part in ("ready", "groups", "closed", "meta", "payload")),
    *(("repair", part) for part in ("delayed", "invisible", "dead", "keys", "heads", "events")),
    ("repair_limits", "tracked"),
    ("repair_limits", "invisible"),
)
"""The parts that repair goes over, in this order; see lua/repair.lua."""


class RepairOperations(PartitionBase[P]):
    """Every operation about damage, on one partition."""

    def check(self) -> Steps[list[Problem]]:
        """Look at everything that is stored; only at the types of keys while one is wrong."""
        return (yield from self._types()) or (yield from self._walk(CHECKED_PARTS))

    def repair(self) -> Steps[list[Problem]]:
        """Repair everything that is stored."""
        removed = yield from self._types(remove=True)
        if not self._count and (
            yield from self._types()
        ):  # without the settings the number of partitions is unknown
            return removed
        if key_of(self._tag, "conf") in {problem.subject for problem in removed}:
            yield from self._make()  # clients that follow the queue must find all partitions
        mended = yield from self._walk(REPAIRED_PARTS)
        if any(each.kind == "settings lost" and each.subject == "format" for each in mended):
            yield from self._make()
        return removed + mended

    def _types(self, *, remove: bool = False) -> Steps[list[Problem]]:
        """Find keys of another type, which no other script can read; `remove` removes them."""
        args = [self._now(), int(remove), self._count]
        return self._ask("types", args, lambda reply: replies.read_problems(reply)[1])

    def _walk(self, parts: Iterable[tuple[str, str]]) -> Steps[list[Problem]]:
        problems: list[Problem] = []
        for name, part in parts:
            cursor = "0"
            while True:
                args = [self._now(), part, cursor, PAGE]
                cursor, found = yield self._command(name, args, replies.read_problems)
                problems += (each for each in found if each.kind != "cron")
                recurring = [each for each in found if each.kind == "cron"]
                if name == "check":
                    problems += (
                        Problem(kind="bad schedule", subject=each.subject, detail=each.detail)
                        for each in recurring
                        if not computable(each.detail)
                    )
                elif lines := {c.detail for c in recurring if not computable(c.detail, "UTC")}:
                    again = self._command(name, [*args, *lines], replies.read_problems)
                    problems += (each for each in (yield again)[1] if each.kind != "cron")
                if cursor == "0":
                    break
        return problems
