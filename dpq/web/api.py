"""The JSON API gives programs what pages show and do. `openapi` makes its document.

Integers beyond 2^53, and all priorities and tokens, are texts: most readers of JSON would damage
them.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from starlette.responses import Response

from dpq import ConfigurationError, Push
from dpq.limits.limits import EVERY_GROUP
from dpq.types import Slot
from dpq.views.limits import make
from dpq.views.sampler import Snapshot
from dpq.views.words import say_state, verdict_data
from dpq.views.workers import Working, working
from dpq.web.forms import act_on_ids, acted, begin_job, job_json
from dpq.web.limit_pages import rules_of
from dpq.web.pages import PAGE
from dpq.web.render import plain
from dpq.web.site import Call, View, read_number, read_whole
from dpq.web.task_pages import leases_of, search, see

ABOUT = (
    "What the pages show and do. Priorities, tokens and integers beyond 2^53 are texts. In a path, "
    "write `~` and two hex digits for `/`, `~` and `%`: `a~2Fb`. Calls that change something need, "
    "from a program, the header `Authorization: Bearer TOKEN` with the dashboard's token, or "
    "`Origin:` with its address if it has none. A dashboard without --write refuses them."
)

Row = tuple[str, str, View, str]
"""Method, path, view, and the names of what a call takes: in its query, or of POST in its body."""

BUCKETS = {"wait": {"buckets"}, "run": {"buckets"}}
"""The buckets of times, which are most of a slot: an answer has them if a request asks for them."""

SLOTS = TypeAdapter(list[Slot])
"""Writes a thousand slots at once. No count of a queue reaches 2^53 in a thousand years."""

MOST = 200
"""Tasks in one answer at most."""


def task_json(call: Call, task: Any) -> dict[str, Any]:
    """Write a task."""
    fields = dict(task) | {"priority": str(task.priority), "token": str(task.token)}
    if not call.payloads:
        del fields["payload"]
    return {name: plain(value) for name, value in fields.items()}


def queue_json(name: str, snapshot: Snapshot | Exception) -> dict[str, Any]:
    """Write the snapshot of a queue, or why it cannot be read."""
    if isinstance(snapshot, Exception):
        return {"queue": name, "error": str(snapshot)}
    survey, verdict = snapshot.survey, snapshot.verdict
    pace = snapshot.pace._asdict().items()
    return {
        "queue": name,
        "stats": snapshot.stats.model_dump(),
        "paused": bool(survey.paused_until),
        "paused_until_ms": int(survey.paused_until) if survey.paused_until.isdecimal() else None,
        "closed_groups": survey.closed,
        "workers": len(snapshot.workers),
        "live": survey.live,
        "max_tasks": survey.max_tasks or None,
        "max_waiting": survey.max_waiting or None,
        "pace": {name: None if value == math.inf else value for name, value in pace},
        "drain": say_state(verdict, survey.now_ms),
        "verdict": verdict_data(verdict),
    }


def queues(call: Call) -> Response:
    """List queues, 50 in an answer."""
    names = list(call.site.directory.names())
    start = read_whole(call.query.get("start", "0"), "start")
    shown = names[start : start + PAGE] if start >= 0 else []
    found = [queue_json(name, each) for name, each in call.site.snapshots(shown).items()]
    return call.answer({"queues": found, "total": len(names)})


def queue(call: Call) -> Response:
    """Read one queue."""
    return call.answer(queue_json(call.name, call.snapshot))


def tasks(call: Call) -> Response:
    """Find tasks of one state, or of all."""
    most = read_whole(call.query.get("n", str(PAGE)), "n")
    if not 1 <= most <= MOST:
        raise ConfigurationError(f"n is {most}: it must be from 1 to {MOST}")
    hits = search(call, call.query, most)
    return call.answer(
        {
            "tasks": [task_json(call, task) for task in hits.tasks],
            "found": hits.search.found,
            "searched": hits.search.looked,
            "left": hits.left,
            "after": hits.after or None,
        }
    )


def task(call: Call) -> Response:
    """Read one task: why it is not running, its worker, and what has happened."""
    seen = see(call, call.part("id"))
    told = {
        "why": seen.why._asdict(),
        "holder": seen.holder and plain(seen.holder) | {"token": str(seen.holder.token)},
        "events": plain(seen.events),
        "result": plain(seen.result) if call.payloads else None,
    }
    return call.answer(task_json(call, seen.task) | told)


def history(call: Call) -> Response:
    """Read what the queue counted and held, minute by minute, or in quarters of an hour."""
    seconds = float(read_number(call.query.get("seconds", "3600"), "seconds"))
    slots = call.once(("history", seconds), lambda: call.queue.admin.history(seconds))
    left_out: Any = {} if call.query.get("buckets") == "1" else {"__all__": BUCKETS}
    text = b'{"slots":%b}' % SLOTS.dump_json(slots, exclude=left_out)
    return call.tagged(text, "application/json")


def events(call: Call) -> Response:
    """Read the events behind an event, or the newest events."""
    after, limit = call.query.get("after", ""), read_whole(call.query.get("limit", "100"), "limit")
    found = call.once(("events", after, limit), lambda: call.queue.admin.events(after, limit))
    return call.answer({"events": plain(found)})


def worker_json(each: Working) -> dict[str, Any]:
    """Write a worker, with the longest of its runs beside what 99 of 100 runs take."""
    fields = each._asdict()
    info: dict[str, Any] = plain(fields.pop("info"))
    del info["queue"]
    return info | fields


def workers(call: Call) -> Response:
    """List the workers of a queue."""
    return call.answer({"workers": [worker_json(each) for each in working([call.snapshot])]})


def leases(call: Call) -> Response:
    """List leases with their holders: the longest held of the 200 that end first."""
    found = [plain(each) | {"token": str(each.token)} for each, _ in leases_of(call)]
    running = call.snapshot.stats.invisible  # without leases that have ended
    return call.answer({"leases": found, "total": max(running, len(found))})


# Actions


def push(call: Call) -> Response:
    """Add a task: its payload, and options of `push` by name; answer with its id."""
    said = call.json
    if "payload" not in said or not set(said) <= set(Push._fields):
        raise ConfigurationError("a task has a payload, and besides options of push by name")
    call.allow("push")
    return call.answer({"id": call.queue.push(**said)}, 201)


def act(call: Call) -> Response:
    """Act on tasks by their ids, or begin an action on all that match a filter."""
    ids, chosen = call.json.get("ids"), call.json.get("filter")
    if ids is not None:
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            raise ConfigurationError("ids must be a list of texts")
        return acted(call, *act_on_ids(call, ids))
    if not isinstance(chosen, dict):
        raise ConfigurationError("ids and filter are missing: give one of them")
    return call.answer(job_json(begin_job(call, chosen)), 202)


def limit(call: Call) -> Response:
    """Set or clear the limit of the queue, of a group, or of every group (`*`)."""
    group = call.part("group") or None
    clears = call.request.method == "DELETE"
    expected = call.query.get("expected") if clears else call.json.get("expected")
    by = call.allow("limit", f"group={group!r} {'clear' if clears else repr(call.json)}")
    if not isinstance(expected, str | None):
        raise ConfigurationError(f"expected is {expected!r}: it must be the `rules` that you read")
    make(call.queue, group, None if clears else rules_of(call.json, group), by, expected)
    if clears:
        return call.answer({"group": group, "windows": []})
    named = [group] if group not in (None, EVERY_GROUP) else []
    states = call.run("states", named)[0]
    return call.answer(plain(states[-1] if group else states[0]))


# Its document


def openapi(rows: Sequence[Row]) -> dict[str, Any]:
    """Make the document of some routes."""
    paths, text = dict[str, dict[str, Any]](), {"type": "string"}
    for method, path, view, takes in rows:
        names = [(name, "path") for name in re.findall(r"{(\w+)}", path)]
        names += [(name, "query") for name in takes.split() if method != "POST"]
        about: dict[str, Any] = {
            "summary": (view.__doc__ or "").split("\n")[0].rstrip("."),
            "parameters": [
                {"name": name, "in": where, "required": where == "path", "schema": text}
                for name, where in names
            ],
            "responses": {"default": {"description": "JSON; of an error: its status and message."}},
        }
        if method == "POST" and takes:
            schema = {"type": "object", "properties": {name: {} for name in takes.split()}}
            about["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[method.lower()] = about
    info = {"title": "DPQ", "version": "1", "description": ABOUT}
    return {"openapi": "3.1.0", "info": info, "paths": paths}
