"""Commands that look and change nothing: peek, get, why, stats, queues."""

import math
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Annotated, Any

import typer
from redis.exceptions import RedisError, ResponseError
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn

from dpq import DPQ, Task, TaskState
from dpq.cli import _command as cmd
from dpq.cli._progress import Bar
from dpq.cli._render import HISTORY, QUEUES, TASKS, batch_bar, changes, counts, report
from dpq.cli._terminal import FAILED, Failed, at_terminal, emit, say, server_away_by, tables, talk
from dpq.explain.drain import MAX_OVER_SECONDS
from dpq.explain.operations import Operations
from dpq.link.cluster import forbidden
from dpq.link.connect import open_url
from dpq.model.display import attempt_of, shown
from dpq.model.history import CHANGES
from dpq.model.rates import many, span
from dpq.model.validation import one_line
from dpq.queue.looking import looking, looking_client
from dpq.queue.waits import follow
from dpq.registry.all_queues import all_names, ask_queues
from dpq.types import BatchState, Drain, Event, VerdictState
from dpq.views import events, words
from dpq.views.limits import changes_of
from dpq.views.words import say_drain, verdict_data


@cmd.on_queue
def peek(
    q: DPQ[Any],
    count: cmd.Count = 10,
    state: TaskState = TaskState.READY,
    after: cmd.Id | None = None,
    json: bool = False,
) -> None:
    """Show the first tasks of one state, without popping them; the best or soonest first.

    Args:
        state: The state of the tasks.
        after: Start after this task.
    """
    tasks = q.peek(count, state, after=after)
    show_tasks(q.queue_name, state, tasks, json)
    if tasks and len(tasks) == count:
        talk(f"more tasks: dpq peek -n {count} --state {state} --after={tasks[-1].id}")


def show_tasks(queue: str, state: TaskState, tasks: list[Any], json: bool) -> None:
    """Print tasks as lines of JSON or as a table; if there is none, say so."""
    none = f"no task is {state} in {queue!r}"
    report(f"{state} in {queue}", TASKS, tasks, json=json, none=none)


@cmd.on_queue
def get(
    q: DPQ[Any],
    task_id: cmd.AnyTaskId = None,
    key: cmd.Text | None = None,
    wait: Annotated[float | None, cmd.option("[SECONDS]", min=0)] = None,
    json: bool = False,
) -> None:
    """Show one task and its events as JSON; or wait for its end, and print its result.

    With --wait the exit code is 1 if the task is dead, if it has not ended in time, or if its
    result is not known. A result is kept only if its worker or its ack has said so.

    Args:
        wait: Wait this long for the task's end, and print its result; without a number wait for
            ever, and show its progress.
    """
    if wait is None:
        task = q.get(task_id, key=key)
        try:
            events = [each.model_dump() for each in q.admin.events(task_id=task.id)]
        except ResponseError as error:
            if not forbidden(error):
                raise
            events = []
        found = task.model_dump() | {"events": events}
        emit(found, indent=2 if at_terminal() and not json else None)
    elif task_id is None:
        raise typer.BadParameter("--wait needs the ID of the task")
    else:
        if for_ever := wait == math.inf:
            _follow(q, task_id)
        emit(q.result(task_id, timeout=0 if for_ever else wait))


def _follow(q: DPQ[Any], task_id: str) -> None:
    said = ""
    with Bar(BarColumn(), at_once=True) as bar:

        def tell(task: Task[Any]) -> None:
            nonlocal said
            at = task.progress
            line = " ".join((task.id, _state(task), shown(str(at or "")))).rstrip()
            if line != said or bar.live:
                bar.show(line, at.done if at else 0, at.total if at else None)
            said = line

        follow(q, task_id, tell, lambda: bar.seconds)


def _state(task: Task[Any]) -> str:
    if task.state is TaskState.INVISIBLE:
        return f"running (attempt {attempt_of(task.attempt, task.max_attempts)})"
    if task.state is TaskState.DELAYED and task.visible_until:
        return f"delayed ({max(0, round(task.visible_until.timestamp() - time.time()))} s)"
    return str(task.state.value)


@cmd.command
def why(
    task_id: Annotated[str | None, cmd.argument("ID")] = None,
    json: bool = False,
    url: cmd.Url = cmd.DEFAULT_URL,
    queue: cmd.Queue = cmd.DEFAULT_QUEUE,
) -> None:
    """Say in one sentence why the queue does not move, or why a task is not running yet.

    For a queue it names what holds it, who is at fault, until when, and what to do. The exit code
    is 1 if its server does not answer, or if there is no such queue.

    Args:
        task_id: The task's id; without it, the queue is explained.
    """
    if task_id is not None:
        with cmd.existing(url, queue) as q:
            sentence = q.why(task_id)
        emit({"id": task_id, "sentence": sentence}) if json else say(sentence)
        return
    last: list[Event] = []
    try:
        with DPQ[Any].from_url(url, queue) as q:
            seen = looking(q)
            verdict = seen.why()
            with suppress(ResponseError):  # this user may not read events
                last = [] if json else seen.admin.events(limit=1, kinds=CHANGES)
    except RedisError as error:
        if not (away := server_away_by(error, queue)):
            raise
        verdict = away
    if json:
        emit(verdict_data(verdict))
    else:
        print(words.verdict(verdict))
        _say_change(queue, last)
    if verdict.state in (VerdictState.SERVER_AWAY, VerdictState.UNKNOWN_QUEUE):
        raise typer.Exit(FAILED)


def _say_change(queue: str, last: list[Event]) -> None:
    """Say the last change of a queue, if that was in the last day, and the way back."""
    now = time.time()
    for change in events.changes(last, [], now * 1000):
        talk(f"changed {span(max(0.0, now - change.at.timestamp()))} ago: {change.words}")
        if changes_of(last, group := last[0].group):
            scope = ["--every-group"] if group == "*" else ["--group", group] * bool(group)
            talk(f"`dpq limit undo {shlex.join([*scope, '--queue', queue])}` is the way back")


@cmd.on_queue
def stats(
    q: DPQ[Any],
    watch: cmd.Watch | None = None,
    batch: cmd.Name | None = None,
    history: Annotated[float | None, cmd.option("SECONDS", min=1)] = None,
    json: bool = False,
) -> None:
    """Say how the queue is doing: tasks in each state, totals, and when it will be empty.

    The limits tell when it will be empty; with --watch, so does the rate at which tasks come and
    end. A batch is watched until it is finished. Workers, the scheduler and the dashboard keep a
    history.

    Args:
        batch: Show this batch instead: its tasks left and done.
        history: Show this much of the past instead, by minutes.
    """
    if history is not None and (batch is not None or watch is not None):
        raise typer.BadParameter("--history goes with neither --batch nor --watch")
    name = q.queue_name
    if history is not None:
        none = f"no history of {name!r}: workers, the scheduler and the dashboard keep it"
        slots = q.admin.history(history)
        rows: list[Any] = slots if json else changes(slots)
        report(f"history of {name}", HISTORY, rows, json=json, none=none)
    elif batch is not None and json:
        for state in _batches(q, batch, watch):
            emit({**state.model_dump(), "pushed": state.pushed, "finished": state.finished})
    elif batch is not None:
        _redraw(map(batch_bar, _batches(q, batch, watch)), live=watch is not None)
    elif json:
        for drain in _drains(q, watch):
            found = {"drain": drain.model_dump(), "verdict": verdict_data(q.why())}
            emit({"queue": name, **q.stats().model_dump(), **found})
            sys.stdout.flush()
    else:
        before = q.stats() if watch else None

        def look(drain: Drain) -> Group:
            nonlocal before
            seen = q.stats()
            table = counts(name, seen, before, watch or 0, say_drain(drain))
            before = seen if watch else None
            return Group(words.verdict(q.why()), table)

        _redraw(map(look, _drains(q, watch)), live=watch is not None)


def _drains(q: DPQ[Any], seconds: float | None) -> Iterator[Drain]:
    """Look at the drain once; or again and again, and measure meanwhile."""
    yield q.admin.drain()
    while seconds is not None:
        over = min(seconds, MAX_OVER_SECONDS)
        time.sleep(seconds - over)
        yield q.admin.drain(over=over)


def _batches(q: DPQ[Any], name: str, seconds: float | None) -> Iterator[BatchState]:
    for _ in _again(seconds):
        yield (state := q.batch(name))
        if state.finished:
            return


def _again(seconds: float | None) -> Iterator[None]:
    """Go on at once, and after each pause of that many seconds; if None, only once."""
    yield
    while seconds is not None:
        sys.stdout.flush()
        time.sleep(seconds)
        yield


def _redraw(screens: Iterable[Any], *, live: bool) -> None:
    """Show screens: at a terminal each in the place of the one before."""
    console = tables()
    if not (live and console.is_terminal):
        for screen in screens:
            console.print(screen)
        return
    with Live(console=console, auto_refresh=False) as shown:
        for screen in screens:
            shown.update(screen, refresh=True)


@cmd.command
def queues(
    watch: cmd.Watch | None = None, json: bool = False, url: cmd.Url = cmd.DEFAULT_URL
) -> None:
    """Show all queues that the server knows, how many tasks each has, and the verdict on each.

    If a queue cannot be read, its row shows the error, and the exit code is 1.
    """
    none = "this server knows no queue: a queue is known after its first push"
    with closing(open_url(url)) as opened:
        client = looking_client(opened.client)
        for _ in _again(watch):
            found = _ask_all(client)
            if watch is not None and not json:
                tables().clear()
            report("queues", QUEUES, found, json=json, none=none)
            for each in found:
                if "verdict" in each and not json:
                    say(each["queue"], each["verdict"]["sentence"])
    if errors := sum("error" in each for each in found):
        raise Failed(f"{errors} of {many(len(found), 'queue')} cannot be read")


def _ask_all(client: Any) -> list[dict[str, Any]]:
    """Make a record of each queue: its counts and the verdict on it, or an error."""
    found: list[dict[str, Any]] = []
    for name, answer in ask_queues(client, all_names(client), Operations.judged):
        if isinstance(answer, Exception):
            said: dict[str, Any] = {"error": one_line(answer)}
        else:
            seen, verdict = answer
            said = {**seen.stats.model_dump(), "verdict": verdict_data(verdict)}
        found.append({"queue": name, **said})
    return found
