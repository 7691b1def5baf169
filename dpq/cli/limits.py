"""`dpq limit` and `dpq group`: limits of a queue and its groups, for all consumers together."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer
from redis.exceptions import ResponseError

from dpq import DPQ, Quota, RateLimit
from dpq.cli import _command as cmd
from dpq.cli import _terminal
from dpq.cli._render import limit_table, scope_name
from dpq.cli._terminal import Failed, emit, tables, talk
from dpq.limits import words
from dpq.limits.limits import EVERY_GROUP
from dpq.limits.rules import LimitRules, limit_words
from dpq.link.cluster import forbidden
from dpq.model.display import shown
from dpq.model.errors import ConfigurationError
from dpq.model.moments import say_moment
from dpq.model.rates import many
from dpq.model.validation import label
from dpq.verbs.browse import MAX_EVENTS
from dpq.views import limits as views
from dpq.views.words import this_user


def _rate(text: str) -> RateLimit | Quota:
    try:
        return words.read_word(text)
    except ConfigurationError as error:
        if "/" in text or text[:1].isdigit():
            raise
        raise ConfigurationError(f"{error}; if it is a group, write --group {text}") from None


GroupName = Annotated[str, cmd.argument("NAME", help="The group's name.")]
LimitGroup = Annotated[str, cmd.option("NAME", "--group", help="A group; by default the queue.")]


def _scope(group: str | None, every_group: bool) -> str | None:
    if group is not None and every_group:
        raise typer.BadParameter("give --group NAME or --every-group, not both")
    group = EVERY_GROUP if every_group else group
    return group if group in (None, EVERY_GROUP) else label("group", group)


@cmd.on_new_queue
def set_(
    q: DPQ[Any],
    rates: Annotated[
        list[RateLimit] | None,  # quotas too, but typer takes no union
        cmd.argument("RATE", parser=cmd.reader(_rate)),
    ] = None,
    group: LimitGroup | None = None,
    every_group: bool = False,
    concurrency: cmd.N | None = None,
    in_order: bool = False,
    member: cmd.Names = None,
    weight: Annotated[float | None, cmd.option("TURNS")] = None,
    max_tasks: cmd.N | None = None,
    max_waiting: cmd.N | None = None,
    when_full: Literal["refuse", "drop_worst"] | None = None,
    reset: bool = False,
    yes: bool = False,
) -> None:
    """Set a limit for all consumers together; it replaces the one before.

    A task takes 1 unit, or its cost. A window grants at most its units + burst - 1, a moving one no
    more than its units. The command shows the limit before and after, and asks at a terminal. `dpq
    limit undo` is the way back.

      dpq limit set 10/s 5000/h,moving           the queue; both rates hold
      dpq limit set 2.5/min --every-group        each group with no own limit
      dpq limit set 300/15m,moving               300 in any 15 minutes, at any speed
      dpq limit set 10/s,burst=5 --group api     one group; 5 at once after a pause
      dpq limit set --concurrency 3 --group api  3 of its tasks at once, at any rate
      dpq limit set 5/s,adaptive=1:20            a learned rate, from 1/s to 20/s
      dpq limit set 500/m tokens=200000/m        push --cost tokens=1800 counts both
      dpq limit set 10/s 10000/day@Europe/Berlin at most 10000 between midnights
      dpq limit set 60/m --group api --member key-a --member key-b   60/m each
      dpq limit set --weight 3 --group big       three turns where others get one
      dpq limit set --in-order --every-group     one task of a group at a time

    Args:
        rates: Units per time: 10/s, 300/15m, 5000/h, 2.5/min, 100/60 (seconds). Several RATEs hold
            together. Options follow: burst=N units at once after a pause; reserve=UNITS:PRIORITY of
            the burst for this priority or a better one; moving: never more in any such time;
            adaptive=FLOOR:CEILING[:STEP] learns the rate; slack=SECONDS for delays of the network;
            estimate=UNITS for a task that names no cost. A quota of a calendar period (hour, day,
            week, month) names its time zone: 10000/day@America/Los_Angeles,
            tokens=5000000/month@UTC,spread
        concurrency: Tasks that may run at once.
        in_order: One task at a time; a retry holds up the rest.

    Seldom needed:
        member: A key or proxy of the group; the limit holds for each. Give it several times.
        weight: Turns of the group where others get one, with round robin.
        max_tasks: The most live tasks of the queue; 0: no bound.
        max_waiting: The most waiting tasks of each group; 0: no bound.
        when_full: If a group is full: refuse the push, or drop_worst, its worst task.
        reset: Forget what was granted, counted and learned.
    """
    if bounds := (max_tasks, max_waiting, when_full) != (None, None, None):
        q.admin.set_bounds(max_tasks=max_tasks, max_waiting=max_waiting, when_full=when_full)
        talk(f"bounded {q.queue_name!r}: {_bounds(q)}")
    if bounds and not rates and not (concurrency or member or weight or in_order or reset):
        return
    scope = _scope(group, every_group)
    more: Any = {"members": member, "weight": weight, "reset": reset, "in_order": in_order}
    given = [*(rates or [])]
    rules = LimitRules.checked(given, group=scope, concurrency=concurrency, **more)
    _change(q, scope, rules, yes)


def _change(q: DPQ[Any], scope: str | None, rules: LimitRules | None, yes: bool) -> None:
    """Show a change of a limit, ask at a terminal, and make the change; None removes the limit."""
    what = f"the limit of {scope_name(scope)} of {q.queue_name!r}"
    stands = None
    try:
        change = views.look_at(q, scope, rules)
    except ResponseError as error:
        if not forbidden(error):
            raise
        talk(f"this user of Redis may not read {what}: what stands is not compared")
    else:
        stands = change.stands
        if change.rules != stands:
            for title, side in (("was", change.was), ("will be", change.will_be)):
                lines = ["; ".join(side.limit), *side.promises, side.drain]
                talk("\n".join(f"  {title * (n == 0):8} {line}" for n, line in enumerate(lines)))
        elif rules is None:
            talk(f"nothing to remove: {what} is not set")
            return
        if rules and rules.reset:
            what_goes = "what was granted, counted and learned"
            talk(f"  forgets  {what_goes}: `dpq limit undo` brings none of it back")
        yes = yes or (change.rules == stands and not (rules and rules.reset))
    verb = "Remove" if rules is None else "Set"
    if not yes and _terminal.asks() and not typer.confirm(shown(f"{verb} {what}?"), err=True):
        talk("nothing was changed")
        return
    views.make(q, scope, rules, this_user("dpq limit"), stands)
    if rules is None:
        talk(f"cleared {what}")
    else:
        said = limit_words(rules) + ["begun anew"] * rules.reset
        talk(f"limited {scope_name(scope)} of {q.queue_name!r}: {', '.join(said)}")


def _bounds(q: DPQ[Any]) -> str:
    most, waiting, how = q.admin.bounds()
    tasks = f"{q.size()} of at most {many(most, 'task')}" if most else "any number of tasks"
    each = f"{many(waiting, 'waiting task')}, then {how}" if waiting else "any number"
    return f"{tasks}; each group: {each}"


@cmd.on_queue
def list_(q: DPQ[Any], group: cmd.Name | None = None, json: bool = False) -> None:
    """Show all limits, the units that are left, and which groups are closed.

    Args:
        group: Only this group.
    """
    states = q.admin.limits() if group is None else [q.admin.group(group)]
    if group is None:  # also groups that are closed, but have no limit
        known = {each.group for each in states}
        states = states + [each for each in q.admin.groups() if each.group not in known]
    for state in states if json else ():
        emit({"queue": q.queue_name, **state.model_dump()})
    if json:
        return
    tables().print(limit_table(f"limits of {q.queue_name}", states))
    if group is None and any(q.admin.bounds()[:2]):
        talk(_bounds(q))


@cmd.on_new_queue
def clear(
    q: DPQ[Any], group: LimitGroup | None = None, every_group: bool = False, yes: bool = False
) -> None:
    """Remove a limit. For a group, the limit of every group holds again."""
    _change(q, _scope(group, every_group), None, yes)


@cmd.on_queue
def undo(
    q: DPQ[Any],
    group: LimitGroup | None = None,
    every_group: bool = False,
    event: cmd.Id | None = None,
    yes: bool = False,
) -> None:
    """Put back the limit that stood before the last change. A second undo undoes the first.

    Args:
        event: Undo this change, by its id in `dpq admin events --json`.
    """
    scope = _scope(group, every_group)
    found = views.changes_of(q.admin.events(limit=MAX_EVENTS, kinds="limit_set"), scope)
    chosen = next((each for each in found if event in (None, each.id)), None)
    if chosen is None:
        raise Failed(
            f"the events of {q.queue_name!r} have no {'such change' if event else 'change'} of the "
            f"limit of {scope_name(scope)}: the queue keeps the last 10 000 or so"
        )
    at = say_moment(chosen.at, datetime.now(UTC))
    talk(f"putting back what stood before {at}{f', by {chosen.by}' if chosen.by else ''}")
    _change(q, scope, views.rules_before(chosen), yes)


@cmd.on_new_queue
def close(
    q: DPQ[Any], name: GroupName, seconds: cmd.ForSeconds = None, member: cmd.Name | None = None
) -> None:
    """Close a group, or one member of its pool: no consumer gets its tasks."""
    q.delay_group(name, seconds, member=member)
    how_long = "until it is opened" if seconds is None else f"for {seconds:g} s"
    talk(f"closed {_named(name, member)} of {q.queue_name!r} {how_long}")


@cmd.on_new_queue
def open_(q: DPQ[Any], name: GroupName, member: cmd.Name | None = None) -> None:
    """Open a group, or a member of its pool: its tasks run again, as its limit allows."""
    q.delay_group(name, 0, member=member)
    talk(f"opened {_named(name, member)} of {q.queue_name!r}")


def _named(group: str, member: str | None) -> str:
    return f"group {group!r}" if member is None else f"member {member!r} of group {group!r}"
