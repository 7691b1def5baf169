"""The pages over all queues of the server: what is wrong, workers, events, recurring tasks.

Each looks at a bounded number of queues and shows a bounded number of rows; it says if there are
more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dpq import TaskState
from dpq.explain.incidents import UNATTENDED
from dpq.explain.operations import Operations
from dpq.link.cluster import forbidden
from dpq.model.filter import Filter
from dpq.model.history import CHANGES
from dpq.model.masking import server_name
from dpq.script.command import Steps
from dpq.types import Event, VerdictState
from dpq.verbs.browse import LOOK, LOOK_MOST, Found
from dpq.views.events import Change, changes
from dpq.views.sampler import Snapshot
from dpq.views.workers import Working, working
from dpq.web.pages import PAGE, paged
from dpq.web.site import Call

QUEUES = 200
"""Queues that one of these pages looks at, in the order of their names."""

ROWS = 200
"""Workers, and recurring tasks, on a page."""

EVENTS_EACH = 50
"""The newest events of each queue, of which the page shows the newest of all."""

EVENTS_SHOWN = 100
"""Events on the page."""


class Way(NamedTuple):
    """A button or a link that answers a verdict."""

    label: str  # its words
    path: str  # its address
    fields: dict[str, str] | None = None  # the fields of the form; None for a link


class Bound(NamedTuple):
    """The queues that a page has looked at, of how many, and those that could not be read."""

    looked: int
    total: int
    errors: dict[str, str]


def of_first(
    call: Call, read: Callable[[list[str]], dict[str, Any]], *key: str
) -> tuple[dict[str, Any], Bound]:
    """Read the first queues; return the answers by name, and what was not read."""
    every = list(call.site.directory.names())
    names = every[:QUEUES]
    answers = call.once(("first", *key), lambda: read(names)) if key else read(names)
    errors = {
        name: "its user of Redis may not read it" if forbidden(each) else str(each)
        for name, each in answers.items()
        if isinstance(each, Exception)
    }
    good = {name: each for name, each in answers.items() if name not in errors}
    return good, Bound(len(names), len(every), errors)


def overview(call: Call) -> Response:
    """Show what is wrong on the server, worst first; below it all queues, 50 on a page."""
    names = [name for name in call.site.directory.names() if call.query.get("q", "") in name]
    page, following = paged(call, names)

    def look(first: list[str]) -> dict[str, Any]:
        """Read the page and the first queues: together no more than keep their samples."""
        return call.site.snapshots([*dict.fromkeys([*page, *first])][:QUEUES])

    read, bound = of_first(call, look)
    worst = call.site.places.order(found.verdict for found in read.values())
    top = worst[:PAGE]
    last = last_changes(call, {each.queue: read[each.queue] for each in top})
    return call.render(
        "overview.html",
        wrong=[(each, ways(call, read[each.queue]), last[each.queue]) for each in top],
        on_top={each.queue for each in top},
        wrongs=sum(each.needs_person for each in worst) + len(bound.errors),
        warned=sum(not each.needs_person for each in worst),
        left_out=len(worst[PAGE:]),
        bound=bound,
        rows=[(name, read.get(name), bound.errors.get(name)) for name in page],
        total=len(names),
        following=following,
    )


def last_changes(call: Call, read: dict[str, Snapshot]) -> dict[str, Change | None]:
    """Find the newest change of each queue in the last day."""

    def steps(queue: Operations[Any]) -> Steps[list[Event]]:
        return queue.events("", 1, kinds=CHANGES)

    names, now_ms = tuple(read), call.site.now_ms()
    found = call.once(("changes", names), lambda: call.site.ask(names, steps))
    few = {name: [] if isinstance(each, Exception) else each for name, each in found.items()}
    return {name: next(iter(changes(few[name], read[name].workers, now_ms)), None) for name in few}


def ways(call: Call, snapshot: Snapshot) -> list[Way]:
    """Return the buttons and links that do what a verdict says is to do; only allowed buttons."""
    verdict = snapshot.verdict
    name, state = verdict.queue, verdict.state
    held = next((h for h in snapshot.survey.held if not h.state.open and h.kind is state), None)
    group = held.state.group if held else None
    found: list[Way] = []
    if state is VerdictState.PAUSED and call.may("resume", name):
        found.append(Way("Resume", call.url("q", name, "resume"), {}))
    by_hand = state is VerdictState.BY_HAND and group is not None
    if by_hand and call.may("open", name):
        fields = {"verb": "open", "group": str(group)}
        found.append(Way("Open the group", call.url("q", name, "group"), fields))
    if state is VerdictState.CONCURRENCY and held and held.holder:
        found.append(Way("Look at its task", call.url("q", name, "tasks", held.holder)))
    if by_hand or state in (VerdictState.QUOTA, VerdictState.CONCURRENCY):
        found.append(Way("Look at its limit", call.url("q", name, "limit", group=group)))
    if state in (*UNATTENDED, VerdictState.HANDLERS_BUSY):
        found.append(Way("Go to its workers", call.url("q", name, "workers")))
    if state is VerdictState.ONLY_DEAD:
        found.append(Way("Look at the dead", call.url("q", name, "dead")))
    return found


# Workers


def workers(call: Call) -> Response:
    """Show the workers of all queues: those that hang or are late come first."""
    found, bound = all_workers(call)

    def may(action: str, names: list[str]) -> bool:
        return all(call.may(action, name) for name in names)

    return call.render(
        "all_workers.html", found=found[:ROWS], total=len(found), bound=bound, may_all=may
    )


def queues_of(call: Call, worker: str) -> list[str]:
    """Return the names of the queues of the worker of an id."""
    found, _ = all_workers(call)
    names = next((each.queues for each in found if each.info.id == worker), None)
    if names is None:
        raise HTTPException(404, "there is no such worker any more")
    return names


def all_workers(call: Call) -> tuple[list[Working], Bound]:
    """Read the workers of all queues."""
    read, bound = of_first(call, call.site.snapshots)
    return working([*read.values()]), bound


# Events, recurring tasks


def events(call: Call) -> Response:
    """Show the newest events of all queues: 429s, closings, deaths, limits set."""

    def read(queue: Operations[Any]) -> Steps[list[Event]]:
        return queue.events("", EVENTS_EACH)

    answers, bound = of_first(call, partial(call.site.ask, what=read), "events")
    kind = call.query.get("kind", "")
    every = [(name, event) for name, few in answers.items() for event in few]
    found = [each for each in every if kind in ("", each[1].kind)]
    found.sort(key=lambda each: each[1].at, reverse=True)
    return call.render(
        "all_events.html",
        found=found[:EVENTS_SHOWN],
        total=len(found),
        each=EVENTS_EACH,
        kinds=sorted({event.kind for _, event in every} | {kind} - {""}),
        kind=kind,
        bound=bound,
    )


def recurring(call: Call) -> Response:
    """Show the recurring tasks among the delayed tasks of all queues, the next one first."""
    look = min(LOOK, LOOK_MOST // max(1, min(QUEUES, len(call.site.directory.names()))))
    chosen = Filter(TaskState.DELAYED, recurring=True)

    def read(queue: Operations[Any]) -> Steps[Found]:
        return queue.search(chosen, None, PAGE, look)

    answers, bound = of_first(call, partial(call.site.ask, what=read), "recurring")
    found = [(name, task) for name, page in answers.items() for task in page.tasks]
    found.sort(key=lambda each: (each[1].visible_until, each[0]))
    return call.render(
        "all_recurring.html",
        rows=found[:ROWS],
        total=len(found),
        looked=sum(page.looked for page in answers.values()),
        left=sum(page.left for page in answers.values()),
        bound=bound,
    )


# Metrics


def metrics(call: Call) -> Response:
    """Write the metrics of all queues of the dashboard; `dpq_up 0` if the server is away."""
    site = call.site
    if site.exporter is None:
        try:
            from dpq.metrics import Exporter
        except ImportError:
            raise HTTPException(
                501, "install DPQ with its extra 'metrics', which brings prometheus-client"
            ) from None
        site.exporter = Exporter(site.directory, site.snapshot, server=server_name(site.server))
    return Response(site.exporter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
