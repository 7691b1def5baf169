"""Callers of acquire without sleep: the test moves the clock."""

from typing import Any

from dpq import DPQ, RateLimited
from dpq.limits.permit import Caller, HeldPermit, PermitAnswer, PermitRequest


class Asker:
    """A caller that does not sleep: the test moves the clock."""

    def __init__(
        self, q: DPQ[Any], group: str | None = "g", timeout: float | None = None, **more: Any
    ) -> None:
        given = {"cost": 1, "priority": 0, "lease": 60.0, **more}
        self.q = q
        self.caller = Caller(PermitRequest(group, timeout=timeout, **given), 0.0)

    def ask(self) -> PermitAnswer:
        answer = self.q._session.run(self.q._operations.acquire, self.caller, 0.0)
        self.caller.receive(answer, 0.0)
        return answer

    def end(self, told: str = "") -> None:
        self.q._session.run(self.q._operations.end_permit, self.caller, self.caller.held, told)

    def give_up(self) -> None:
        self.q._session.run(self.q._operations.give_up, self.caller)

    def extend(self, seconds: float) -> str:
        held = HeldPermit(self.caller.id, self.caller.request.group, self.caller.held, "g")
        kept = self.q._session.run(self.q._operations.extend_many, [(held, seconds)])
        self.caller.held = held.member if kept[0] else ""
        return self.caller.held

    def met(self, retry_after: float, scope: Any = "member", told: str = "") -> None:
        self.q._session.run(
            *(self.q._operations.met_limit, self.caller, RateLimited(retry_after, scope=scope)),
            *(self.caller.held, told),
        )
