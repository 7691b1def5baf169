"""Commands that look and change nothing: peek, get, why, stats, queues, check."""

import sys
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from dpq import DPQ, Drain, TaskState, Verdict, VerdictState
from dpq.cli._existing import existing, judged
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    AnyTaskId,
    Json,
    Key,
    Queue,
    Url,
    option,
)
from dpq.cli._render import all_queues, counts, dead_tasks, live_tasks
from dpq.cli._terminal import FAILED, Failed, emit, say, tables, talk
from dpq.model.drain import MAX_OVER_SECONDS
from dpq.model.validation import one_line
from dpq.operations.queue import QueueOperations
from dpq.queue.looking import looking_client
from dpq.registry.all_queues import all_names, ask_queues
from dpq.transport.connect import open_url
from dpq.views import words


def peek(
    count: Annotated[int, option("COUNT", "Show at most so many tasks.", "-n")] = 10,
    state: Annotated[TaskState, typer.Option(help="The state of the tasks.")] = TaskState.READY,
    after: Annotated[
        str | None, option("ID", "Start after this task.", unset="from the first one")
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show the first tasks of one state, without popping them; the best or soonest first."""
    with existing(url, queue) as q:
        tasks = q.peek(count, state, after=after)
    show_tasks(queue, state, tasks, json)
    if tasks and len(tasks) == count:
        talk(f"more tasks: dpq peek -n {count} --state {state} --after={tasks[-1].id}")


def show_tasks(queue: str, state: TaskState, tasks: list[Any], json: bool) -> None:
    """Print tasks as lines of JSON or as a table; if there is none, say so."""
    if json:
        for task in tasks:
            emit(task.model_dump(exclude={"errors"}))  # only get reads them
    elif tasks:
        render = dead_tasks if state is TaskState.DEAD else live_tasks
        tables().print(render(f"{state} in {queue}", tasks))
    else:
        talk(f"no task is {state} in {queue!r}")


def get(
    task_id: AnyTaskId = None,
    key: Key = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show one task, in any state, as one line of JSON."""
    with existing(url, queue) as q:
        emit(q.get(task_id, key=key).model_dump())


def why(
    task_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The task's id.", show_default="the queue")
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Say in one sentence why the queue does not move, or why a task is not running yet.

    For a queue it names what holds it, who is at fault, until when, and what to do. The exit code
    is 1 if its server does not answer, or if there is no such queue.
    """
    if task_id is None:
        verdict = judged(url, queue)
        emit(verdict_data(verdict)) if json else say_verdict(verdict)
        if verdict.state in (VerdictState.SERVER_AWAY, VerdictState.UNKNOWN_QUEUE):
            raise typer.Exit(FAILED)
        return
    with existing(url, queue) as q:
        sentence = q.why(task_id)
    emit({"id": task_id, "sentence": sentence}) if json else say(sentence)


def say_verdict(verdict: Verdict) -> None:
    """Print a verdict, and what to do."""
    say(str(verdict))
    if verdict.what_to_do:
        say(verdict.what_to_do)


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Write a verdict as data, with its sentence."""
    return {"sentence": str(verdict), **verdict.model_dump(mode="json")}


Watch = Annotated[
    float | None,
    option(
        "[SECONDS]",
        "Repeat every so many seconds (without a number: 1) until Ctrl-C.",
        unset="show once",
        min=0.1,
    ),
]


def stats(
    watch: Watch = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show how many tasks are in each state, the totals, and when the backlog is gone.

    Without --watch the limits alone say when; with it, also how many tasks come and end.
    """
    with existing(url, queue, awaited=watch is not None) as q:
        if json:
            _stats_lines(q, watch)
        elif watch is None:
            tables().print(counts(queue, q.stats(), None, 0, q.drain()))
            say_verdict(q.why())
        else:
            _stats_live(q, watch)


def _stats_lines(q: DPQ[Any], watch: float | None) -> None:
    drain = q.drain()
    while True:
        found = {"drain": drain.model_dump(), "verdict": verdict_data(q.why())}
        emit({"queue": q.queue_name, **q.stats().model_dump(), **found})
        if watch is None:
            return
        sys.stdout.flush()
        drain = _measured(q, watch)


def _measured(q: DPQ[Any], seconds: float) -> Drain:
    """Wait so many seconds, and measure meanwhile."""
    over = min(seconds, MAX_OVER_SECONDS)
    time.sleep(seconds - over)
    return q.drain(over=over)


def _stats_live(q: DPQ[Any], seconds: float) -> None:
    console, before, drain = tables(), q.stats(), q.drain()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen = q.stats()
            table = Group(
                counts(q.queue_name, seen, before, seconds, drain), words.verdict(q.why())
            )
            if console.is_terminal:
                live.update(table, refresh=True)
            else:
                console.print(table)
            before = seen
            drain = _measured(q, seconds)


def queues(
    watch: Watch = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show all queues that the server knows, how many tasks each has, and the verdict on each.

    If a queue cannot be read, its row shows the error, and the exit code is 1.
    """
    with closing(open_url(url)) as opened:
        client = looking_client(opened.client)
        while watch is not None and not json:  # until Ctrl-C
            found = _ask_all(client)
            console = tables()
            console.clear()
            _show_all(console, found)
            time.sleep(watch)
        found = _ask_all(client)
    errors = {name: answer for name, answer in found.items() if isinstance(answer, Exception)}
    if not found:
        talk("this server knows no queue: a queue is known after its first push")
    elif not json:
        _show_all(tables(), found)
    for name, answer in found.items() if json else ():
        if name in errors:
            emit({"queue": name, "error": one_line(answer)})
        else:
            seen, verdict = answer
            emit({"queue": name, **seen.stats.model_dump(), "verdict": verdict_data(verdict)})
    if errors:
        raise Failed(f"{len(errors)} of {len(found)} queues cannot be read")


def _ask_all(client: Any) -> dict[str, Any]:
    return dict(ask_queues(client, all_names(client), QueueOperations.judged))


def _show_all(console: Console, found: Mapping[str, Any]) -> None:
    rows = {n: each if isinstance(each, Exception) else each[0].stats for n, each in found.items()}
    console.print(all_queues(rows))
    for name, answer in found.items():
        if not isinstance(answer, Exception):
            say(name, str(answer[1]))


def check(json: Json = False, url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE) -> None:
    """Check all that is stored for damage; the exit code is 1 if there is any. See also: doctor."""
    with existing(url, queue) as q:
        problems = q.check()
    for problem in problems:
        emit(problem) if json else say(problem.kind, problem.subject, problem.detail)
    if problems:
        raise Failed(f"{len(problems)} problems in {queue!r}")
    talk(f"no problems in {queue!r}")
