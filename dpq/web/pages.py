"""The pages that only show: each takes a `Call` and returns a response."""

import base64
import json
from typing import Any, NamedTuple

from pydantic_core import from_json
from redis.exceptions import RedisError
from starlette.responses import RedirectResponse, Response

from dpq import ConfigurationError, LeaseInfo, TaskNotFoundError, TaskState
from dpq.model.diagnosis import explain
from dpq.model.task import task_state
from dpq.operations.browse import LOOK_A_PAGE, LOOK_MOST, Filter, Position
from dpq.operations.finding import Hits, Search, begin, find
from dpq.operations.one_task import Trail, holder, task_trail
from dpq.operations.survey import Explained
from dpq.queue.inside import operations_of, session_of
from dpq.registry.all_queues import inspect_server
from dpq.views.charts import SPANS
from dpq.views.one_task import Begins, begins, begun_ms, life, shown_steps, steps_of
from dpq.web.access import Refused
from dpq.web.actions import OF_STATES
from dpq.web.site import Call, read_number

PAGE = 50
"""Rows of a page."""

CLOSED_SHOWN = 5
"""Closed groups on the page of a queue."""

STATES = [state.value for state in TaskState]

ALL = "all"
"""The state that a search in all states names."""

GO_ON = 200_000
"""Tasks that a search looks at by itself, before somebody says that it is to go on: about a second
of server time, spread over several seconds."""

SUGGESTED = 20
"""Groups that a page suggests; while somebody types, the browser asks for others."""


def overview(call: Call) -> Response:
    """Show all queues, 50 on a page."""
    names = [name for name in call.site.directory.names() if call.query.get("q", "") in name]
    start = max(0, whole_of(call.query.get("start", "0")))
    return call.render(
        "overview.html",
        rows=call.site.snapshots(names[start : start + PAGE]),
        total=len(names),
        start=start,
        following=start + PAGE if start + PAGE < len(names) else None,
    )


def queue(call: Call) -> Response:
    """Show one queue: states, rates, sparklines, closed groups, workers, history."""
    name = call.query.get("span", "1h")
    chosen = name if name in SPANS else "1h"
    snapshot = call.site.snapshot(call.name)
    drain = call.site.drain(call.name)
    return call.render(
        "queue.html",
        snapshot=snapshot,
        closed=call.site.watch(call.name).closed_longest(CLOSED_SHOWN),
        drain=drain,
        spans=SPANS,
        chosen=chosen,
        story=call.site.story(call.name, SPANS[chosen]),
    )


def events(call: Call) -> Response:
    """Show what has happened to a queue, the newest first: 429s, closings, deaths, limits set."""
    kind, group = call.query.get("kind", ""), call.query.get("group", "").strip()
    known = call.site.events(call.name)
    found = [
        event
        for event in reversed(known)
        if kind in ("", event.kind) and group in ("", event.group)
    ]
    start = max(0, whole_of(call.query.get("start", "0")))
    return call.render(
        "events.html",
        events=found[start : start + PAGE],
        total=len(found),
        kinds=sorted({event.kind for event in known} | {kind} - {""}),
        kind=kind,
        group=group,
        allowed=call.site.watch(call.name).may_see_events,
        following=start + PAGE if start + PAGE < len(found) else None,
    )


def coming(call: Call) -> Response:
    """Show the next tasks that start, each with its moment, as limits stand."""
    return call.render(
        "next.html",
        found=next_tasks(call),
        snapshot=call.site.snapshot(call.name),
        payloads=_payloads(call),
    )


# Tasks


def filter_of(call: Call, values: Any, state: str | None = None) -> Filter:
    """Read a filter from a query, a form or JSON.

    Raises:
        ConfigurationError: A value is out of its bounds.
    """

    def first(name: str) -> Any:
        value = values.get(name)
        return (value or [None])[0] if isinstance(value, list) else value

    def text(name: str) -> str:
        value = first(name)
        return "" if value is None else str(value).strip()

    least, fault = text("least"), first("fault")
    return Filter(
        task_state(state or text("state") or "ready"),
        group=text("group"),
        least=None if least == "" else read_number(least, "priority"),
        text=text("text"),
        reason=text("reason"),
        fault=None if fault is None else str(fault),
        recurring=text("recurring") in ("1", "true", "True"),
        payloads=call.site.guard.access.payloads,
    )


def query_of(chosen: Filter) -> dict[str, Any]:
    """Write a filter as the query of a link, or the hidden fields of a form."""
    named = {
        "state": chosen.state.value,
        "group": chosen.group,
        "least": "" if chosen.least is None else str(chosen.least),
        "text": chosen.text,
        "reason": chosen.reason,
        "recurring": "1" if chosen.recurring else "",
    }
    query = {name: value for name, value in named.items() if value}
    return query if chosen.fault is None else query | {"fault": chosen.fault}


def write_search(search: Search) -> str:
    """Write how far a search has come, for a URL; "" if nothing is left."""
    if not search.states:
        return ""
    places = [
        place and [place[0], base64.b64encode(place[1]).decode()] for place in search.positions
    ]
    plain = [search.states, places, search.looked, search.found]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode()


def read_search(text: str) -> Search:
    """Read the text that `write_search` has written.

    Raises:
        ConfigurationError: The text has another form.
    """
    try:
        states, places, looked, found = from_json(base64.urlsafe_b64decode(text.encode()))
        return Search(
            tuple(map(TaskState, states)),
            [place and _position(*place) for place in places],
            int(looked),
            {TaskState(state): int(count) for state, count in found.items()},
        )
    except (ArithmeticError, AttributeError, ValueError, TypeError, LookupError) as error:
        raise ConfigurationError("after is no position of this list: start again") from error


def _position(score: str, member: str) -> Position:
    return str(float(score)).replace("nan", "0"), base64.b64decode(member, validate=True)


def search(call: Call, chosen: Filter, most: int, *, everywhere: bool = False) -> Hits:
    """Find up to `most` tasks of the filter's state, or of all if `everywhere`, within one request.

    It goes on where the page before ended.
    """
    after, watch = call.query.get("after", ""), call.site.watch(call.name)
    if after:
        begun = read_search(after)
    else:
        begun = begin(sizes_of(call)) if everywhere else Search((chosen.state,))
    run = session_of(watch.queue).run
    return run(find, watch.browser, chosen, begun, most, look_of(call))


def sizes_of(call: Call) -> dict[TaskState, int]:
    """Return how many tasks each state has."""
    stats = call.site.snapshot(call.name).stats
    return {state: getattr(stats, state) for state in TaskState}


def left_of(call: Call, hits: Hits) -> int:
    """Return how many tasks a search has not looked at yet."""
    sizes = sizes_of(call)
    return hits.left + sum(sizes[state] for state in hits.search.states[1:])


def tasks(call: Call) -> Response:
    """Show tasks of one state or of all that pass a filter; or go to the task of an id or a key."""
    query = dict(call.query)
    asked = query.pop("find", query.get("text", "")).strip()
    if asked and asked != query.get("text"):
        return _go_to(call, asked, query)
    everywhere = query.get("state") == ALL
    chosen = filter_of(call, query | {"text": asked}, "ready" if everywhere else None)
    hits = search(call, chosen, PAGE, everywhere=everywhere)
    states = STATES if everywhere else [chosen.state]
    return call.render(
        "tasks.html",
        snapshot=call.site.snapshot(call.name),
        chosen=chosen,
        everywhere=everywhere,
        hits=hits,
        left=left_of(call, hits),
        sizes={state.value: size for state, size in sizes_of(call).items()},
        query=query_of(chosen) | ({"state": ALL} if everywhere else {}),
        after=write_search(hits.search),
        begun=bool(query.get("after")),
        states=STATES,
        groups=call.shared("groups", "largest", "", "", SUGGESTED),
        offered=[
            name
            for name, of in OF_STATES.items()
            if any(state in of for state in states) and call.may(name)
        ],
        payloads=_payloads(call),
        bound=GO_ON,
    )


def look_of(call: Call) -> int:
    """Return how many tasks a request may look at: more than usual if the request asks so."""
    asked = whole_of(call.query.get("look", ""))
    return min(LOOK_MOST, asked) if asked else LOOK_A_PAGE


def _payloads(call: Call) -> bool:
    return call.site.guard.access.payloads and call.query.get("payload") != "0"


def _go_to(call: Call, asked: str, query: dict[str, str]) -> Response:
    """Go to the task of an id or a key; if there is none, search all states for the text."""
    looks: list[dict[str, str]] = [{"key": asked}]
    if asked.isascii() and len(asked) < 200:
        looks.insert(0, {"id": asked})
    for named in looks:
        try:
            found = call.queue.get(named.get("id"), key=named.get("key"))
        except (TaskNotFoundError, ConfigurationError):
            continue
        return RedirectResponse(call.url("q", call.name, "tasks", found.id), 303)
    kept = {name: query[name] for name in ("group", "least") if query.get(name)}
    return call.go("q", call.name, "tasks", state=ALL, text=asked, **kept)


class Seen(NamedTuple):
    """A task with all that its page and its JSON say of it.

    Attributes:
        task: The task.
        why: Why it is not running, and its place in the order.
        begins: When it begins.
        holder: Its lease; None if it is not running.
        trail: What has happened to it, as far as that is kept and was looked at.
    """

    task: Any
    why: Explained
    begins: Begins
    holder: LeaseInfo | None
    trail: Trail


def see(call: Call, id_: str) -> Seen:
    """Read one task.

    Raises:
        TaskNotFoundError: Nothing is stored under the id.
    """
    queue = call.queue
    found, why = queue.get(id_), call.browse("explained", id_)
    trail = read_trail(call, id_, found.enqueued_at.timestamp() * 1000)
    held = None
    if found.state is TaskState.INVISIBLE:
        held = session_of(queue).run(holder, operations_of(queue), found, why.now_ms)
    snapshot, drain = call.site.snapshot(call.name), call.site.drain(call.name)
    return Seen(found, why, begins(found, why, next_tasks(call), snapshot, drain), held, trail)


def read_trail(call: Call, id_: str, since_ms: float = 0.0) -> Trail:
    """Read the trail of a task; if the queue keeps none, its events among those of the queue."""
    known = call.site.events(call.name)
    trail = Trail([], 0, True)
    if call.site.watch(call.name).may_see_events:
        queue = call.queue
        trail = session_of(queue).run(task_trail, operations_of(queue), id_, since_ms)
    if trail.events:
        return trail
    return trail._replace(events=[each for each in known if each.task_id == id_])


def next_tasks(call: Call) -> Any:
    """Foresee the next tasks that start."""
    return call.site.shared.get(("forecast", call.name), lambda: call.queue.forecast(PAGE))


def task(call: Call) -> Response:
    """Show one task: when it begins and why then, its worker, its life, its payload."""
    try:
        seen = see(call, call.part("id"))
    except TaskNotFoundError:
        if gone := _gone(call, call.part("id")):
            return gone
        raise
    state = seen.task.state
    steps, left_out = shown_steps(life(seen.task, seen.trail.events))
    return call.render(
        "task.html",
        seen=seen,
        task=seen.task,
        steps=steps,
        left_out=left_out,
        partitions=call.site.snapshot(call.name).survey.partitions,
        offered=[name for name, of in OF_STATES.items() if state in of and call.may(name)],
        payloads=_payloads(call),
    )


def _gone(call: Call, id_: str) -> Response | None:
    """Show what the trail has of a task that is gone; None if it has nothing."""
    trail = read_trail(call, id_)
    if not trail.events:
        return None
    steps, left_out = shown_steps(steps_of(trail.events))
    now_ms = call.site.now_ms()
    return call.render(
        "gone.html", 404, id=id_, trail=trail, steps=steps, left_out=left_out, now_ms=now_ms
    )


def dead(call: Call) -> Response:
    """Show dead letters by reason and error."""
    snapshot = call.site.snapshot(call.name)
    kinds = call.shared("kinds", look_of(call)) if snapshot.stats.dead else None
    return call.render("dead.html", snapshot=snapshot, kinds=kinds)


def recurring(call: Call) -> Response:
    """Show recurring tasks, those that are delayed first."""
    state = call.query.get("state", "delayed")
    chosen = Filter(task_state(state), recurring=True)
    hits = search(call, chosen, PAGE)
    return call.render(
        "recurring.html",
        chosen=chosen,
        hits=hits,
        after=write_search(hits.search),
        states=[state for state in STATES if state != "dead"],
        payloads=_payloads(call),
    )


# Workers, server


def workers(call: Call) -> Response:
    """Show the workers of a queue, and its leased tasks, the longest running first."""
    snapshot = call.site.snapshot(call.name)
    found = call.shared("search", Filter(TaskState.INVISIBLE), (), 200, 200)
    leases = sorted(((begun_ms(task) or 0.0, task) for task in found.tasks), key=lambda p: p[0])
    return call.render(
        "workers.html", snapshot=snapshot, leases=leases[:PAGE], payloads=_payloads(call)
    )


def server(call: Call) -> Response:
    """Show the server that holds the queues, and its setup."""
    names = list(call.site.directory.names())
    if not names:
        return call.render("server.html", names=[], problems=[], missing=[], info=None, jobs=[])
    queue = call.site.watch(names[0]).queue

    def look() -> Any:
        problems, missing = inspect_server(queue)
        return [(each, *explain(each)) for each in problems], missing, _info(queue.redis)

    problems, missing, info = call.site.shared.get(("server",), look)
    return call.render(
        "server.html",
        names=names[:PAGE],
        problems=problems,
        missing=missing,
        info=info,
        jobs=call.site.checks,
    )


INFO = {
    "redis_version": "version",
    "valkey_version": "Valkey",
    "uptime_in_seconds": "up for",
    "used_memory_human": "memory used",
    "maxmemory_human": "memory at most",
    "maxmemory_policy": "when it is full",
    "connected_clients": "clients",
    "instantaneous_ops_per_sec": "commands in a second",
    "aof_enabled": "AOF",
    "rdb_last_bgsave_status": "last RDB",
}
"""The fields of INFO that the server page shows."""


def _info(redis: Any) -> dict[str, str] | None:
    """Read a few facts about the server; None for a cluster, or if INFO is forbidden."""
    try:
        info = redis.info()
    except (RedisError, OSError):
        return None
    if not isinstance(info, dict) or "redis_version" not in info:
        return None
    shown = {words: str(info[name]) for name, words in INFO.items() if name in info}
    if info.get("maxmemory") == 0:
        shown["memory at most"] = "no bound"
    return shown


def job(call: Call) -> Response:
    """Show an action on all that match a filter: its count, or its progress."""
    found = call.site.jobs.get(call.part("job"))
    if found is None:
        raise Refused(404, "there is no such action: it was done long ago, or by another process")
    return call.render("job.html", job=found, query=query_of(found.chosen))


def api(call: Call) -> Response:
    """Show the document of the JSON API."""
    return call.render("api.html", document=call.site.document)


def whole_of(text: str) -> int:
    """Read a number of a query; 0 for a text that is no number."""
    return int(text) if text.isdecimal() and len(text) < 12 else 0
