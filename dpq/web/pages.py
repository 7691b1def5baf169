"""The pages that only show: each takes a `Call` and returns a response."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from redis.exceptions import RedisError
from starlette.responses import Response

from dpq import ConfigurationError
from dpq.model.diagnosis import explain
from dpq.model.filter import Filter
from dpq.model.history import CHANGES, FAILED_KINDS
from dpq.model.task import task_state
from dpq.registry.all_queues import inspect_server
from dpq.verbs.browse import LOOK_A_PAGE, LOOK_MOST
from dpq.views.charts import SPANS, Story, story
from dpq.views.events import SHOWN, changes, failures
from dpq.web.render import plain
from dpq.web.site import STORY_SECONDS, Call, read_number

T = TypeVar("T")

PAGE = 50
"""Rows of a page."""


def queue(call: Call) -> Response:
    """Show one queue: states, rates, sparklines, closed groups, workers, history."""
    name = call.query.get("span", "1h")
    chosen = name if name in SPANS else "1h"
    snapshot, now_ms = call.snapshot, call.site.now_ms()

    def read() -> Story:
        span = SPANS[chosen]
        return story(call.queue.admin.history(span.ask), span, now_ms)

    return call.render(
        "queue.html",
        snapshot=snapshot,
        drain=snapshot.verdict.drain,
        spans=SPANS,
        chosen=chosen,
        story=call.once(("story", chosen), read, STORY_SECONDS),
        changes=changes(call.events(*CHANGES), snapshot.workers, now_ms)[:SHOWN],
        failures=failures(call.events(*FAILED_KINDS), now_ms),
    )


def events(call: Call) -> Response:
    """Show what has happened to a queue, the newest first: 429s, closings, deaths, limits set."""
    kind, group = call.query.get("kind", ""), call.query.get("group", "").strip()
    known = call.events()
    found = [each for each in known if kind in ("", each.kind) and group in ("", each.group)]
    shown, following = paged(call, found[::-1])
    return call.render(
        "events.html",
        events=shown,
        total=len(found),
        kinds=sorted({event.kind for event in known} | {kind} - {""}),
        kind=kind,
        group=group,
        allowed=call.watch.may_see_events,
        following=following,
    )


def paged(call: Call, rows: Sequence[T]) -> tuple[Sequence[T], int | None]:
    """Return the rows of the page that a query asks for, and the start of the next page."""
    start = whole_of(call.query.get("start", ""))
    end = start + PAGE
    return rows[start:end], end if end < len(rows) else None


def whole_of(text: str) -> int:
    """Read a number of a query; 0 for a text that is no number."""
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def batches(call: Call) -> Response:
    """Show what has become of the tasks of each batch: the 50 that changed last."""
    found = call.once(("batches",), lambda: call.queue.admin.batches(PAGE))
    if call.for_programs:
        return call.answer({"batches": plain(found)})
    return call.render("batches.html", batches=found, now_ms=call.snapshot.survey.now_ms)


FLAGS: dict[str, Any] = {"0": False, "false": False, "1": True, "true": True}
NUMBERS = ("least", "most", "older_than")
FILTERS = tuple(each.name for each in fields(Filter) if each.name != "payloads")
"""The names that a filter may have."""


def filter_of(
    call: Call, values: Mapping[str, Any], state: str | None = None, *, lenient: bool = False
) -> Filter:
    """Read a filter from a query, a form or JSON; `lenient` searches take an empty field as
    none."""
    if unknown := [] if lenient else sorted(set(values) - set(FILTERS)):
        raise ConfigurationError(
            f"filter has {unknown[0]!r:.200}: it may have {', '.join(FILTERS)}"
        )
    given: dict[str, Any] = {}
    for name in (name for name in FILTERS if name in values):
        value = values[name]
        if isinstance(value, str) and name != "fault":
            value = value.strip()
            if lenient and not value:
                continue
        if name in NUMBERS and value is not None:
            value = read_number(value, name)
        elif name == "recurring":
            value = FLAGS.get(str(value).lower(), value)
        given[name] = value
    given["state"] = task_state(state or given.get("state", "ready"))
    return Filter(payloads=call.site.guard.access.payloads, **given)


def query_of(chosen: Filter) -> dict[str, Any]:
    """Write a filter as the query of a link, or the hidden fields of a form."""
    query: dict[str, Any] = {"state": chosen.of_state.value}
    for name in FILTERS[1:]:
        value = getattr(chosen, name)
        if value is not None and value is not False and (value != "" or name == "fault"):
            query[name] = "1" if value is True else str(value)
    return query


def look_of(call: Call) -> int:
    """Return how many tasks a request may look at: more than usual if the request asks so."""
    return min(LOOK_MOST, whole_of(call.query.get("look", "")) or LOOK_A_PAGE)


def dead(call: Call) -> Response:
    """Count dead letters by reason and error."""
    seen = call.shared("kinds", look_of(call))
    if call.for_programs:
        found = [kind._asdict() for kind in seen.kinds]
        return call.answer({"kinds": found, "searched": seen.looked, "left": seen.left})
    return call.render("dead.html", kinds=seen)


def server(call: Call) -> Response:
    """Show the server that holds the queues, and its setup."""
    names = list(call.site.directory.names())

    def look() -> Any:
        queue = call.site.watch(names[0]).queue
        problems, missing = inspect_server(queue)
        return [(each, *explain(each)) for each in problems], missing, _info(queue.redis)

    problems, missing, info = call.once(("server",), look) if names else ([], [], None)
    return call.render("server.html", names=names, problems=problems, missing=missing, info=info)


def _info(redis: Any) -> dict[str, Any] | None:
    """Read the facts of the server; None for a cluster, or if INFO is forbidden."""
    try:
        info = redis.info()
    except (RedisError, OSError):
        return None
    return info if "redis_version" in info else None


def api(call: Call) -> Response:
    """Show the document of the JSON API."""
    if call.for_programs:
        return call.answer(call.site.document)
    return call.render("api.html", document=call.site.document)
