"""The pages of tasks: lists and searches, what comes next, recurring tasks, and one task."""

import base64
from math import isfinite
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter
from starlette.responses import RedirectResponse, Response

from dpq import ConfigurationError, TaskNotFoundError, TaskState
from dpq.explain.survey import Explained
from dpq.model.filter import Filter
from dpq.model.history import Event
from dpq.queue.inside import operations_of, session_of
from dpq.types import LeaseInfo, Result
from dpq.verbs.bulk import OF_STATES
from dpq.views.events import begun_ms, life, shown_steps, steps_of
from dpq.web.pages import PAGE, filter_of, look_of, query_of, shows_payloads
from dpq.web.search import Hits, Search, begin, find, holders
from dpq.web.site import Call

STATES = ["ready", "waiting", "delayed", "invisible", "dead"]

ALL = "all"
"""The state that a search in all states names."""

GO_ON = 200_000
"""Tasks that a search looks at by itself, before somebody says that it is to go on: about a second
of server time, spread over several seconds."""

KEPT = ("group", "least", "most", "key_prefix", "older_than")
"""The fields of a filter that a search in all states keeps."""

SUGGESTED = 20
"""Groups that a page suggests: the largest."""


SEARCHES = TypeAdapter[Search](
    Search, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


def write_search(search: Search) -> str:
    """Write how far a search has come, for a URL; "" if nothing is left."""
    return base64.urlsafe_b64encode(SEARCHES.dump_json(search)).decode() if search.states else ""


def read_search(text: str) -> Search:
    """Read the text that `write_search` has written."""
    try:
        found = SEARCHES.validate_json(base64.urlsafe_b64decode(text.encode()))
        if found.position and not isfinite(float(found.position[0])):
            raise ValueError("a place is a number")  # noqa: TRY301 - all of these are one answer
    except ValueError as error:
        raise ConfigurationError("after is no position of this list: start again") from error
    return found


def search(call: Call, chosen: Filter, most: int, *, everywhere: bool = False) -> Hits:
    """Find up to `most` tasks of the filter's state, or of all if `everywhere`, within one
    request."""
    after, watch = call.query.get("after", ""), call.site.watch(call.name)
    if after:
        begun = read_search(after)
    else:
        begun = begin(sizes_of(call)) if everywhere else Search((chosen.of_state,))
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
    chosen = filter_of(call, query | {"text": asked}, "ready" if everywhere else None, lenient=True)
    hits = search(call, chosen, PAGE, everywhere=everywhere)
    states = STATES if everywhere else [chosen.of_state]
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
        groups=call.shared("groups_by", "largest", "", "", SUGGESTED),
        offered=[
            name
            for name, of in OF_STATES.items()
            if any(state in of for state in states) and call.may(name)
        ],
        payloads=shows_payloads(call),
        bound=GO_ON,
    )


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
    queue = call.queue
    found, why = queue.get(id_), session_of(queue).run(operations_of(queue).explained, id_)
    events = call.site.task_events(call.name, id_)
    held = None
    if found.state is TaskState.INVISIBLE:
        [held] = session_of(queue).run(holders, operations_of(queue), [found], why.now_ms)
    return Seen(found, why, held, events, _result(call, id_))


def _result(call: Call, id_: str) -> Result | None:
    outcome = session_of(call.queue).run(operations_of(call.queue).outcome, id_)
    result: Result | None = outcome.result
    return result


def task(call: Call) -> Response:
    """Show one task: why it is not running, its worker, its life, its payload."""
    try:
        seen = see(call, call.part("id"))
    except TaskNotFoundError:
        if gone := _gone(call, call.part("id")):
            return gone
        raise
    state = seen.task.state
    steps, left_out = shown_steps(life(seen.task, seen.events))
    return call.render(
        "task.html",
        seen=seen,
        task=seen.task,
        began=begun_ms(seen.task),
        steps=steps,
        left_out=left_out,
        offered=[name for name, of in OF_STATES.items() if state in of and call.may(name)],
        payloads=shows_payloads(call),
    )


def _gone(call: Call, id_: str) -> Response | None:
    """Show the events and the result of a task that is gone; None if there are none."""
    events, result = call.site.task_events(call.name, id_), _result(call, id_)
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
        payloads=shows_payloads(call),
    )
