"""The pages of tasks: lists and searches through states, one task, and workers with leases."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter
from starlette.responses import Response

from dpq import ConfigurationError, TaskNotFoundError, TaskState
from dpq.explain.survey import Explained
from dpq.model.filter import Filter
from dpq.model.history import Event
from dpq.model.task import Task
from dpq.types import LeaseInfo, Result
from dpq.verbs.browse import MAX_EVENTS, Position
from dpq.verbs.bulk import OF_STATES
from dpq.verbs.workers import lease_info
from dpq.views.events import begun_ms, life, shown_steps, steps_of
from dpq.views.workers import working
from dpq.web.pages import PAGE, filter_of, look_of, query_of
from dpq.web.site import Call

ALL = "all"
"""The state that a search in all states names."""

GO_ON = 200_000
"""Tasks that a search looks at by itself, before somebody says that it is to go on: about a second
of server time, spread over several seconds."""

KEPT = ("group", "least", "most", "key_prefix", "older_than")
"""The fields of a filter that a search in all states keeps."""

TASK_SECONDS = 5.0
"""Seconds that the events of a task are shared: a page that stays open reads them again."""

SUGGESTED = 20
"""Groups that a page suggests: the largest."""


class Search(NamedTuple):
    """A search, as far as it has come: the states that are left, and the place in the first."""

    states: list[TaskState]
    position: Position = None
    looked: int = 0
    found: Mapping[TaskState, int] = {}


SEARCHES = TypeAdapter[Search](
    Search, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class Hits(NamedTuple):
    """The tasks that one request has found."""

    chosen: Filter
    everywhere: bool  # in all states
    tasks: list[Task[Any]]
    search: Search  # the search after them
    left: int  # tasks that it has not looked at
    after: str  # the search for a URL; "" if nothing is left


def read_search(text: str) -> Search:
    """Read the `after` of hits."""
    with suppress(ValueError):
        found = SEARCHES.validate_json(text)
        if not found.position or isfinite(float(found.position[0])):
            return found
    raise ConfigurationError("after is no position of this list: start again")


def search(call: Call, query: Mapping[str, str], most: int) -> Hits:
    """Find up to `most` tasks that pass the filter of a query, within one request. A search in all
    states begins with the smallest: it shows what it finds there at once."""
    everywhere = query.get("state") == ALL
    chosen = filter_of(call, query, "ready" if everywhere else None, lenient=True)
    sizes, look = sizes_of(call), look_of(call)
    begun = Search(sorted(sizes, key=sizes.__getitem__) if everywhere else [chosen.of_state])
    if after := call.query.get("after", ""):
        begun = read_search(after)
    states, position, looked, found = begun
    tasks: list[Task[Any]] = []
    left = 0
    while states and len(tasks) < most and look > 0:
        only = replace(chosen, state=states[0])
        newest = only.state is TaskState.DEAD
        page = call.run("search", only, position, most - len(tasks), look, newest=newest)
        tasks += page.tasks
        look, looked = look - page.looked, looked + page.looked
        left, position = page.left, page.position
        found = {**found, states[0]: found.get(states[0], 0) + len(page.tasks)}
        if left:  # the page is full, by its tasks, its looks or its bytes
            break
        states, position = states[1:], None
    come = Search(states, position, looked, found)
    left += sum(sizes[each] for each in states[1:])
    after = SEARCHES.dump_json(come).decode() if states else ""
    return Hits(chosen, everywhere, tasks, come, left, after)


def sizes_of(call: Call) -> dict[TaskState, int]:
    """Return how many tasks each state has."""
    stats = call.snapshot.stats
    return {state: getattr(stats, state) for state in TaskState}


def tasks(call: Call) -> Response:
    """Show tasks of one state or of all that pass a filter; or go to the task of an id or a key."""
    query = dict(call.query)
    asked = query.pop("find", query.get("text", "")).strip()
    if asked and asked != query.get("text"):
        return _go_to(call, asked, query)
    hits = search(call, query | {"text": asked}, PAGE)
    states = {*TaskState} if hits.everywhere else {hits.chosen.of_state}
    return call.render(
        "tasks.html",
        **hits._asdict(),
        sizes={state.value: size for state, size in sizes_of(call).items()},
        query=query_of(hits.chosen) | ({"state": ALL} if hits.everywhere else {}),
        begun=bool(query.get("after")),
        groups=call.shared("groups_by", "largest", "", "", SUGGESTED),
        offered=offered(call, states),
        bound=GO_ON,
    )


def offered(call: Call, states: set[TaskState]) -> list[str]:
    """Return the allowed actions on tasks of some states."""
    return [name for name, of in OF_STATES.items() if states & {*of} and call.may(name)]


def _go_to(call: Call, asked: str, query: dict[str, str]) -> Response:
    """Go to the task of an id or a key; if there is none, search all states for the text."""
    for id_, key in ((asked, None), (None, asked)):
        with suppress(TaskNotFoundError, ConfigurationError):
            return call.go("q", call.name, "tasks", call.queue.get(id_, key=key).id)
    kept = {name: query[name] for name in KEPT if query.get(name)}
    return call.go("q", call.name, "tasks", state=ALL, text=asked, **kept)


class Seen(NamedTuple):
    """A task with all that its page and its JSON say of it."""

    task: Any
    why: Explained  # why it is not running, and when it may
    holder: LeaseInfo | None  # its lease; None if it is not running
    events: list[Event]  # what has happened to it, as far as the queue keeps that; the oldest first
    result: Result | None = None  # of its last finished run, if that is kept, and it comes back


def see(call: Call, id_: str) -> Seen:
    """Read one task."""
    found, why = call.queue.get(id_), call.run("explained", id_)
    held = holders(call, [found], why.now_ms) if found.state is TaskState.INVISIBLE else [None]
    return Seen(found, why, held[0], *kept_of(call, id_))


def kept_of(call: Call, id_: str) -> tuple[list[Event], Result | None]:
    """Read the events of a task, some seconds old at most, and its newest result."""
    read = partial(call.queue.admin.events, limit=MAX_EVENTS, task_id=id_)
    seen = call.watch.may_see_events
    events = call.once(("events of", id_), read, TASK_SECONDS) if seen else []
    return events, call.run("outcome", id_).result


def task(call: Call) -> Response:
    """Show one task: why it is not running, its worker, its life, its payload."""
    try:
        seen = see(call, call.part("id"))
    except TaskNotFoundError:
        if gone := _gone(call, call.part("id")):
            return gone
        raise
    steps, left_out = shown_steps(life(seen.task, seen.events))
    return call.render(
        "task.html",
        seen=seen,
        task=seen.task,
        began=begun_ms(seen.task),
        steps=steps,
        left_out=left_out,
        offered=offered(call, {seen.task.state}),
    )


def _gone(call: Call, id_: str) -> Response | None:
    """Show the events and the result of a task that is gone; None if there are none."""
    events, result = kept_of(call, id_)
    if not events and result is None:
        return None
    steps, left_out = shown_steps(steps_of(events))
    return call.render(
        "gone.html",
        200 if result else 404,
        id=id_,
        steps=steps,
        left_out=left_out,
        result=result,
    )


# Workers and their leases


def holders(call: Call, tasks: Sequence[Task[Any]], now_ms: float) -> list[LeaseInfo]:
    """Read which worker has each of some running tasks."""
    told = call.run("told")
    return [lease_info(call.name, task, now_ms, told) for task in tasks]


LEASES_READ = 200
"""Leases that are read for a page: those that end first."""


def leases_of(call: Call) -> list[tuple[LeaseInfo, Any]]:
    """Read leases, each with its task: the longest held of those that end first."""
    now_ms = call.snapshot.survey.now_ms

    def read() -> list[tuple[LeaseInfo, Any]]:
        chosen = Filter(TaskState.INVISIBLE)
        found = call.run("search", chosen, (), LEASES_READ, LEASES_READ).tasks
        return list(zip(holders(call, found, now_ms), found, strict=True))

    return sorted(call.once(("leases",), read), key=lambda pair: (pair[0].since, pair[0].token))


def workers(call: Call) -> Response:
    """Show the workers of a queue, and its leases, the longest held first, with their holders."""
    snapshot = call.snapshot
    return call.render(
        "workers.html",
        snapshot=snapshot,
        workers=working([snapshot])[:LEASES_READ],
        leases=leases_of(call)[:PAGE],
    )
