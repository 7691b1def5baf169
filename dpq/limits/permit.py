"""A caller of `acquire`: its checked arguments, and what follows from each answer. No I/O.

`queue/permits.py` and its asyncio twin ask the server and sleep as `Caller` says.
"""

import secrets
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dpq.limits.cost import write_cost
from dpq.limits.pools import member_name
from dpq.model.errors import ConfigurationError, LimitTimeoutError
from dpq.model.priority import encode_priority
from dpq.model.task import Cost
from dpq.model.validation import label, milliseconds, nearest

DEFAULT_LEASE = 60.0
"""Seconds of a permit that counts towards a concurrency, or is a probe: longer than most requests;
while the caller lives, it is extended at a third of them."""

ASK_AGAIN_SECONDS = 1.0
"""A caller that has slept longer asks once more before it goes: its group may be closed by now."""

MOST_SLEEP_SECONDS = 30.0
"""A closing may end sooner than was said (another limit), or be without an end. acquire/stand.lua
forgets a caller that has not asked again 3 s later."""

UNKNOWN_MEMBER = "\t"
"""The member of a caller that neither names one nor can learn which it got: no pool has it."""

SHOWN_MEMBERS = 5
"""Members that an error names."""


class PermitRequest:
    """The arguments of `acquire`, checked."""

    def __init__(
        self,
        group: str | None,
        cost: Cost,
        timeout: float | None,
        priority: float,
        lease: float = DEFAULT_LEASE,
        member: str | None = None,
        host: str | None = None,
    ) -> None:
        if group is not None:
            label("group", group)
        if timeout is not None:
            milliseconds("timeout", timeout)
        milliseconds("lease", lease, least=0.001)
        if member not in (None, UNKNOWN_MEMBER):
            member_name(member)
            if group is None:
                raise ConfigurationError(
                    f"member is {member!r:.200} without a group: name the group whose pool has it"
                )
        self.group, self.host = group, host
        self.timeout, self.lease = timeout, lease  # seconds
        self.cost = str(write_cost(cost))  # as the text of a record, as the priority
        self.priority, _ = encode_priority(priority)
        self.member = member or ""  # "" for any, or `UNKNOWN_MEMBER`

    @property
    def scope(self) -> str:
        """The group, and behind a TAB the member that it must be."""
        named = self.member not in ("", UNKNOWN_MEMBER)
        return f"{self.group}\t{self.member}" if named else self.group or ""

    def refusal(self, members: list[str]) -> ConfigurationError:
        """Make the error for a pool that does not have the member."""
        shown = ", ".join(map(repr, members[:SHOWN_MEMBERS]))
        if len(members) > SHOWN_MEMBERS:
            shown += f" and {len(members) - SHOWN_MEMBERS} more"
        if self.member == UNKNOWN_MEMBER:
            return ConfigurationError(
                f"group {self.group!r} is a pool ({shown}), and nothing says which member a "
                "request uses: give the transport `prepare=`, a function that sets the key of "
                "`permit.member`, or `member=`, which names the member of a request"
            )
        return ConfigurationError(
            f"member is {self.member!r:.200}, but the pool of group {self.group!r} has {shown}"
            f"{nearest(self.member, members)}"
        )


class PermitAnswer(NamedTuple):
    """An answer of the script acquire; acquire.lua has the codes."""

    code: int
    wait: float  # seconds until it may go, or is to ask again
    moment: str = ""  # of the grant, ms; or the place of the caller in the line
    held: str = ""  # the lease of the permit, or ""
    scope: str = ""  # the group, and behind a TAB the member of its pool
    cost: str = ""  # the units that were charged, as the text of a record
    brief: str = ""  # "1" if the lease is there only until the answer is observed
    members: tuple[str, ...] = ()  # those of a pool that does not have the one


@dataclass(slots=True, eq=False)
class HeldPermit:
    """A permit that is a lease, in the form in which leases are extended.

    `member` is the text that stands for it on the server; it changes at each extension.
    """

    token: ClassVar = 0
    visibility: ClassVar = None
    attempt: ClassVar = None
    max_attempts: ClassVar = None

    id: str
    group: str | None
    member: str
    scope: str


class Caller:
    """One caller that waits for a permit: what it asks, and how long it sleeps."""

    def __init__(self, request: PermitRequest, now: float) -> None:
        self.request = request
        self.id = secrets.token_urlsafe(9)
        self.moment = ""  # for which units are booked, ms
        self.place = ""  # in the line of callers, which it keeps
        self.channel = ""  # where it hears that it is called
        self.held = ""  # the lease of its booking
        self.scope, self.cost = request.scope, request.cost
        self.brief = False  # its lease is there only until the answer is observed, which ends it
        self.granted = False  # it may go, once it has slept
        self._until = None if request.timeout is None else now + request.timeout

    def remaining(self, now: float) -> float | None:
        """Return the seconds that it still waits; None for ever."""
        return None if self._until is None else max(0.0, self._until - now)

    def receive(self, answer: PermitAnswer, now: float) -> float:
        """Take an answer; return the seconds to sleep."""
        if answer.members:
            raise self.request.refusal(list(answer.members))
        left = self.remaining(now)
        self.moment, self.held, wait = "", answer.held, answer.wait
        if not answer.moment or answer.code != 1:
            self.scope = self.request.scope
        elif answer.cost:
            self.scope, self.cost, self.brief = answer.scope, answer.cost, bool(answer.brief)
        if answer.code == 1:
            self.moment, self.place = answer.moment, ""
            self.granted = wait <= ASK_AGAIN_SECONDS
            return wait
        self.place = answer.moment
        if answer.code < 0 or left == 0:
            asked = self.request
            raise LimitTimeoutError(asked.group, wait, asked.timeout or 0.0, asked.cost)
        wait = min(wait, MOST_SLEEP_SECONDS)
        return wait if left is None else min(wait, left)
