"""The operations about permits, which take units of a limit without a task."""

from typing import Any

from dpq.limits.permit import Caller, HeldPermit, PermitAnswer
from dpq.limits.signals import RateLimited, require_scope, status_text
from dpq.model.task import P
from dpq.model.validation import milliseconds
from dpq.script.command import Steps, same
from dpq.script.refusals import Code
from dpq.verbs.base import OperationsBase


def read_permit(reply: list[Any]) -> PermitAnswer:
    """Read the reply of acquire."""
    if reply[0] == Code.NOT_FOUND:
        members = reply[1].decode().split("\t")[1:]
        return PermitAnswer(Code.NOT_FOUND, 0.0, members=tuple(members))
    code, microseconds, *texts = reply
    return PermitAnswer(code, microseconds / 1e6, *(text.decode() for text in texts))


class PermitOperations(OperationsBase[P]):
    """Every operation about permits."""

    def acquire(self, caller: Caller, now: float) -> Steps[PermitAnswer]:
        """Take units of a limit, or learn when they will be free; `now` is the caller's clock."""
        request, left = caller.request, caller.remaining(now)
        args = [
            *(self._now(), caller.scope, request.cost, request.priority),
            "" if left is None else milliseconds("timeout", left),
            milliseconds("lease", request.lease),
            *(caller.id, caller.moment, caller.place, caller.held, caller.channel),
            request.member,
        ]
        return self._ask("acquire", args, read_permit)

    def extend_permit(self, held: HeldPermit, seconds: float) -> Steps[bool]:
        """Keep the lease of a permit alive; False if it is lost."""
        ms = milliseconds("seconds", seconds, least=0.001)
        args = [self._now(), held.scope, held.member, ms, "", "", "", ""]
        member = yield self._command("permit", args, same)
        held.member = member.decode() or held.member
        return bool(member)

    def end_permit(self, caller: Caller, member: str, told: str) -> Steps[None]:
        """End the lease of a permit, and report what it has spent."""
        args = [self._now(), caller.scope, member, 0, told, caller.cost, caller.moment, ""]
        yield self._command("permit", args, same)

    def give_up(self, caller: Caller) -> Steps[None]:
        """End what a caller holds that goes no further: its booking, and its lease or place."""
        held = caller.held or caller.place
        args = [self._now(), caller.scope, held, 0, "", caller.cost, caller.moment, "1"]
        yield self._command("permit", args, same)

    def met_limit(
        self, caller: Caller, limited: RateLimited, member: str, told: str
    ) -> Steps[None]:
        """Close a member, a group, or the queue, after an answer that was a limit."""
        require_scope(limited.scope)
        ms = milliseconds("retry_after", limited.retry_after) * (-1 if limited.guessed else 1)
        args = [self._now(), caller.scope, limited.scope, ms, caller.moment, member, told]
        args.append(caller.cost)
        if status := status_text(limited.status):
            args.append(status)
        yield self._command("met_limit", args, same)
