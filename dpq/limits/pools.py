"""Pools: groups whose tasks run as one of several members. No I/O."""

from collections.abc import Sequence
from typing import Any

from dpq.model.errors import ConfigurationError
from dpq.model.validation import label

MAX_MEMBERS = 64
"""Members of a pool: pop reads the gates of all; lua/lib/limits/rules.lua has the same number."""

MAX_MEMBER_BYTES = 100

UNTIL_OPENED_MS = 90_000_000_000_000
"""The moment that stands for a closing without an end (in the year 4821), as in lib/notice.lua."""


def member_name(value: Any) -> str:
    """Check the name of a member: as a group's, of 1 to 100 bytes, and not a permit's (`~...`)."""
    name = label("member", value)
    if len(name.encode()) > MAX_MEMBER_BYTES:
        raise ConfigurationError(
            f"member is {len(name.encode())} bytes ({name[:40]!r}...): it must be at most "
            f"{MAX_MEMBER_BYTES}; a member is a short name of a key or proxy, never the key itself"
        )
    if name.startswith("~"):
        raise ConfigurationError(
            f"member is {name!r}: it must not begin with a ~, as the ids of permits do"
        )
    return name


def pool_members(members: Sequence[str] | None, group: str | None) -> tuple[str, ...]:
    """Check the members of a limit."""
    if members is None:
        return ()
    if isinstance(members, str | bytes) or not isinstance(members, Sequence):
        raise ConfigurationError(f"members is {members!r}: it must be a list of names")
    if group is None or group == "*":
        whose = "the queue" if group is None else "every group"
        raise ConfigurationError(
            f"members are given for {whose}: only a named group has members; name it "
            "(group='api.example'), and push its tasks with that group"
        )
    names = tuple(member_name(name) for name in members)
    if not 1 <= len(names) <= MAX_MEMBERS:
        raise ConfigurationError(f"members are {len(names)}: they must be 1 to {MAX_MEMBERS}")
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise ConfigurationError(f"members name {twice!r} twice: each must have a name of its own")
    return names
