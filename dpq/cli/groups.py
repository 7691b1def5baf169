"""`dpq group`: groups, which are open or closed for all consumers together."""

from typing import Annotated, Any

import typer

from dpq import DPQ, LimitState
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url, option
from dpq.cli._render import group_sheet, limit_table
from dpq.cli._terminal import emit, tables, talk

app = typer.Typer(
    no_args_is_help=True, help="List or show groups; close or open one for all consumers."
)

OneMember = Annotated[
    str | None, option("NAME", "A member of its pool.", "--member", unset="the whole group")
]
GroupName = Annotated[str, typer.Argument(metavar="NAME", help="The group's name.")]


def show_limits(title: str, queue: str, states: list[LimitState], json: bool) -> None:
    """Show states of limits as a table, or as JSON."""
    if not json:
        tables().print(limit_table(title, states))
    for state in states if json else ():
        emit({"queue": queue, **state.model_dump()})


@app.command("list")
def list_groups(json: Json = False, url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE) -> None:
    """Show the groups that are closed or have a limit of their own."""
    with existing(url, queue) as q:
        found = q.groups()
    if found:
        show_limits(f"groups of {queue}", queue, found, json)
    else:
        talk(f"no group of {queue!r} is closed or has a limit of its own")


@app.command("show")
def show_group(
    name: GroupName, json: Json = False, url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE
) -> None:
    """Show one group: its limit, the units left, and whether it is open, or why not."""
    with existing(url, queue) as q:
        state = q.group(name)
    if json:
        emit({"queue": queue, **state.model_dump()})
    else:
        tables().print(group_sheet(f"group {name} of {queue}", state))


@app.command("close")
def close_group(
    name: GroupName,
    seconds: Annotated[
        float | None,
        typer.Argument(
            metavar="[SECONDS]", help="Seconds from now.", show_default="until it is opened"
        ),
    ] = None,
    member: OneMember = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Close a group: no consumer gets its tasks. Or close a member of its pool, alone."""
    with DPQ[Any].from_url(url, queue) as q:
        q.delay_group(name, seconds, member=member)
    how_long = "until it is opened" if seconds is None else f"for {seconds:g} s"
    talk(f"closed {_named(name, member)} of {queue!r} {how_long}")


@app.command("open")
def open_group(
    name: GroupName,
    member: OneMember = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Open a group, or a member of its pool: its tasks run again, as its limit allows."""
    with DPQ[Any].from_url(url, queue) as q:
        q.delay_group(name, 0, member=member)
    talk(f"opened {_named(name, member)} of {queue!r}")


def _named(group: str, member: str | None) -> str:
    return f"group {group!r}" if member is None else f"member {member!r} of group {group!r}"
