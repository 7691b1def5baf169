"""The forms of pages, which change something. Each form checks its right first: `Call.allow`."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dpq import ConfigurationError
from dpq.limits.rules import limit_words
from dpq.model.errors import LimitChangedError
from dpq.model.rates import many
from dpq.verbs.bulk import BURIED, OF_STATES
from dpq.views.limits import make
from dpq.web.access import ACTIONS, COOKIE, SESSION_SECONDS
from dpq.web.actions import DESTROYS, Job, act
from dpq.web.limit_pages import question, rules_of
from dpq.web.pages import filter_of, query_of
from dpq.web.server_pages import queues_of
from dpq.web.site import Call, read_whole

IDS_AT_ONCE = 1000
"""Ids that one form or call may name; for more tasks there are filters."""


def read_action(call: Call) -> tuple[str, Any]:
    """Read an action, and the value that it needs: a new priority, or a reason."""
    action = str(call.said("action"))
    if action == "update":
        return action, call.number("priority")
    return action, str(call.said("reason") or BURIED) if action == "bury" else None


def act_on_ids(call: Call, ids: list[str]) -> tuple[str, int, int]:
    """Do an action on some tasks; return it, and how many were changed, and had changed."""
    action, value = read_action(call)
    if action not in OF_STATES:
        raise ConfigurationError(f"action is {action!r}: it must be one of {', '.join(OF_STATES)}")
    by = call.allow(action, f"ids={','.join(ids[:20])} count={len(ids)} value={value!r}")
    if not 0 < len(ids) <= IDS_AT_ONCE:
        raise ConfigurationError(
            f"{len(ids)} tasks are named: name 1 to {IDS_AT_ONCE}, or act on all that match"
        )
    return action, *act(call.queue, action, ids, value, by)


def begin_job(call: Call, values: Mapping[str, Any]) -> Job:
    """Count the tasks that match a filter, before an action on all of them."""
    action, value = read_action(call)
    if action in ("replay", "purge"):
        values = {"state": "dead", **values}
    chosen, rate = filter_of(call, values), call.maybe("rate")
    by = call.allow(action, f"filter={chosen!r} value={value!r} rate={rate!r}")
    return call.site.jobs.begin(Job(call.queue, action, chosen, value, rate, by))


def tasks(call: Call) -> Response:
    """Act on the selected tasks, or begin an action on all that match."""
    action, ids = call.field("action"), call.form.get("ids", [])
    target = call.url("q", call.name, "tasks")
    back = call.field("back") or target
    if call.field("all"):
        sent = {name[2:]: v[0] for name, v in call.form.items() if name.startswith("f.")}
        return call.go("actions", begin_job(call, sent).id)
    if not ids:
        raise ConfigurationError("no task is selected: tick some, or choose all that match")
    if action in (*DESTROYS, "release") and not call.field("sure"):
        question = f"{ACTIONS[action].capitalize()}: {many(len(ids), 'task')} of {call.name!r}?"
        fields = [(name, each) for name, values in call.form.items() for each in values]
        return _ask(call, question, action, [call.name], fields=fields, target=target, back=back)
    return acted(call, *act_on_ids(call, ids), back)


def acted(call: Call, action: str, done: int, missed: int, back: str = "") -> Response:
    """Say how many tasks or workers an action has changed, and how many had changed meanwhile."""
    if call.for_programs:
        return call.answer({"done": done, "missed": missed})
    told = f"{action}: {done} done" + (f", {missed} had changed meanwhile" if missed else "")
    return call.render("done.html", told=told, back=back)


def _ask(call: Call, question: str, action: str, names: Sequence[str], **shown: Any) -> Response:
    """Ask before an action, if it is allowed in all its queues."""
    for name in names:
        if not call.may(action, name):
            call.allow(action, queue=name)  # raises an error, and notes it in the log
    return call.render("confirm.html", question=question, action=action, **shown)


def job_of(call: Call) -> Job:
    """Find the action on all that match a filter that the path names."""
    found = call.site.jobs.get(call.part("job"))
    if found is None:
        raise HTTPException(
            404, "there is no such action: it was done long ago, or by another process"
        )
    return found


def job_json(job: Job) -> dict[str, Any]:
    """Write an action on all that match a filter."""
    names = ("id", "action", "state", "count", "searched", "left", "done", "missed", "error")
    fields = {name: getattr(job, name) for name in names}
    return fields | {"queue": job.queue.queue_name, "filter": query_of(job.chosen)}


def job(call: Call) -> Response:
    """Confirm an action with the number of tasks that it counted, or stop it after its step."""
    found = job_of(call)
    name = found.queue.queue_name
    call.site.guard.allow(call.request, found.action, name, f"job={found.id}")
    if call.request.method == "DELETE" or call.said("stop"):
        found.stop()
    else:
        if found.action in DESTROYS and not call.for_programs and call.field("name") != name:
            raise ConfigurationError(f"type the name of the queue, {name!r}, to confirm")
        call.site.jobs.confirm(found, read_whole(call.said("expected"), "expected"))
    return call.done(job_json(found), "actions", found.id)


def show_job(call: Call) -> Response:
    """Show an action on all that match a filter: its count, or its progress."""
    found = job_of(call)
    if call.for_programs:
        return call.answer(job_json(found))
    return call.render("job.html", job=found, query=query_of(found.chosen))


def pause(call: Call) -> Response:
    """Pause the queue, for some seconds or until it is resumed."""
    by = call.allow("pause", f"seconds={call.said('seconds') or 'until resumed'}")
    call.queue.pause(call.maybe("seconds"), by=by)
    return call.done({"paused": True}, "q", call.name)


def resume(call: Call) -> Response:
    """Resume the queue."""
    call.queue.resume(by=call.allow("resume"))
    return call.done({"paused": False}, "q", call.name)


OF_WORKERS = {
    "release": "Give back all tasks that worker {worker} holds of {queues}?",
    "quiet": "Let worker {worker} take no new tasks of {queues}?",
    "unquiet": "Let worker {worker} take tasks of {queues} again?",
}
"""The actions on a worker, and what is asked before each."""


def worker(call: Call) -> Response:
    """Give back all leases of a worker; or let it be quiet, or take tasks again."""
    worker = call.part("id")
    action = call.part("action") or call.path.rpartition(":")[2]
    if action not in OF_WORKERS:
        raise HTTPException(404, "there is no such page")
    where = ["q", call.name] if call.name else []
    names = [call.name] if where else queues_of(call, worker)
    back = call.url(*where, "workers")
    if not call.for_programs and not call.field("sure"):
        said = {"worker": call.field("name") or worker, "queues": ", ".join(map(repr, names))}
        question = OF_WORKERS[action].format(**said)
        target = call.url(*where, "workers", worker, action)
        return _ask(call, question, action, names, fields=[], target=target, back=back)
    return acted(call, action, *_act_on_worker(call, worker, action, names), back)


def _act_on_worker(call: Call, worker: str, action: str, names: Sequence[str]) -> tuple[int, int]:
    """Do an action on a worker, in some queues, once it is allowed in all of them."""
    queues = [call.queue_of(name) for name in names]
    by = [call.allow(action, f"worker={worker!r}", name) for name in names]
    done = missed = 0
    for queue in queues:
        if action == "release":
            held = queue.admin.held(IDS_AT_ONCE, worker=worker)
            asked, some = len(held), queue.admin.release_held(held)
        else:
            asked, some = 1, getattr(queue.admin, action)(worker, by=by[0])
        done, missed = done + some, missed + asked - some
    return done, missed


def group(call: Call) -> Response:
    """Open a group or a member of its pool, or close it for some seconds."""
    name = call.part("group") if call.for_programs else call.field("group")
    verb = call.path.rpartition(":")[2] if call.for_programs else call.field("verb")
    member, seconds = call.said("member"), 0 if verb == "open" else call.number("seconds")
    call.allow("close" if seconds > 0 else "open", f"group={name!r} {member=} {seconds=}")
    call.queue.delay_group(name, seconds, member=member)
    return call.done(
        {"group": name, "closed": seconds > 0},
        *("q", call.name, "limit" if member else "limits"),
        **{"group" if member else "q": name},
    )


def limit(call: Call) -> Response:
    """Make a change of a limit that the question has shown, unless somebody else made one."""
    group = call.field("group") or None
    if not {"rules", "expected"} <= set(call.form):
        raise ConfigurationError("the form has no rules to set: change the limit on its page")
    rules, expected = (call.form[name][0] for name in ("rules", "expected"))
    wanted = rules_of({"rules": rules}, group)
    words = "; ".join(limit_words(wanted)) if wanted else "removed"
    by = call.allow("limit", f"group={group!r} {words}")
    try:
        make(call.queue, group, wanted, by, expected)
    except LimitChangedError:
        return question(call, group, wanted, expected, 409)
    return call.go("q", call.name, "limit", group=group)


def login(call: Call) -> Response:
    """Ask for the token, and begin a session if it is right."""
    guard = call.site.guard
    if not guard.is_token(call.field("token")):
        return call.render("login.html", 401 if call.changes else 200, wrong=call.changes)
    answer = call.go()
    answer.set_cookie(
        COOKIE,
        guard.new_session(),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=call.request.url.scheme == "https",
        path=call.root or "/",
    )
    return answer
