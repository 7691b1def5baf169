"""`dpq admin`: pauses, events, actions on many tasks, and a queue as lines of JSON."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic_core import from_json
from rich.progress import BarColumn

from dpq import DPQ, Filter, TaskState
from dpq.cli import _command as cmd
from dpq.cli import _terminal
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, emit, talk
from dpq.cli.produce import open_lines
from dpq.model.display import shown
from dpq.model.rates import many
from dpq.types import BulkProgress, Event
from dpq.verbs.bulk import OF_STATES
from dpq.verbs.workers import MOST_NAMED
from dpq.views.events import event_text
from dpq.views.words import this_user

AT_ONCE = 1000  # events in one call, which is the most that a call returns


@cmd.on_new_queue
def pause(q: DPQ[Any], seconds: cmd.ForSeconds = None) -> None:
    """Pause the queue: no consumer gets a task."""
    q.pause(seconds, by=this_user("dpq admin pause"))
    how_long = "until `dpq admin resume`" if seconds is None else f"for {seconds:g} s"
    talk(f"paused {q.queue_name!r} {how_long}")


@cmd.on_new_queue
def resume(q: DPQ[Any]) -> None:
    """End a pause: consumers get tasks again."""
    q.resume(by=this_user("dpq admin resume"))
    talk(f"resumed {q.queue_name!r}")


@cmd.on_queue
def events(
    q: DPQ[Any],
    after: cmd.Id | None = None,
    count: Annotated[int, cmd.option("COUNT", "-n", min=1, max=AT_ONCE)] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
    task: cmd.Id | None = None,
    kind: Annotated[list[str] | None, cmd.option("KIND")] = None,
    json: bool = False,
) -> None:
    """Show what happened: failed attempts, deaths, 429s, limits set; the oldest first.

    The queue keeps about the last 10 000.

    Args:
        after: Only what came after this event; if not given, the newest.
        count: Events at most.
        follow: Go on with what happens, until Ctrl-C.
        task: Only the events of this task.
        kind: Only events of this kind, such as failed; repeat it for more.
    """
    chosen: Any = {"task_id": task, "kinds": kind or ()}
    found = q.admin.events(after or "", count, **chosen)
    if not found:
        talk(f"nothing has happened to {q.queue_name!r} that people want to see")
    while True:
        for event in found:
            emit(event) if json else print(_line(event))
        if not follow:
            return
        sys.stdout.flush()
        after = found[-1].id if found else after or ""
        if len(found) < AT_ONCE:
            time.sleep(0.5)  # soon enough for a reader, and cheap for the server
        found = q.admin.events(after, AT_ONCE, **chosen)


def _line(event: Event) -> str:
    said = event_text(event)
    words = (said.kind, event.task_id, event.group, event.member, said.whole(event.at))
    at = event.at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    return " ".join((f"{at} UTC", *(shown(word) for word in words if word)))


DESTROYS = ("cancel", "bury", "purge", "drop")  # these need --yes
Action = Literal["cancel", "update", "run", "release", "bury", "replay", "purge", "drop"]


@cmd.on_queue
def bulk(
    q: DPQ[Any],
    action: Annotated[Action, cmd.argument("ACTION")],
    state: Annotated[TaskState | None, cmd.option("STATE")] = None,
    group: cmd.Name | None = None,
    key_prefix: cmd.Text | None = None,
    least: cmd.Number | None = None,
    most: cmd.Number | None = None,
    older_than: cmd.Seconds | None = None,
    text: cmd.Text | None = None,
    reason: cmd.Text | None = None,
    priority: cmd.Number | None = None,
    because: cmd.Text | None = None,
    rate: cmd.Number | None = None,
    worker: cmd.Name | None = None,
    held_for: cmd.Positive | None = None,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Act on all tasks that pass the filters, in steps; print how many were changed.

      dpq admin bulk cancel --group example.org --yes
      dpq admin bulk release --worker web-1:77      what a dead worker holds
      dpq admin bulk purge --reason expired --yes

    Tasks that come meanwhile are left alone. Ctrl-C stops after the step that is running.

    Args:
        action: cancel or update live tasks, run delayed ones now, release or bury running ones,
            replay or purge dead ones; or drop the queue: tasks, settings, totals and name.
        state: Only ready, delayed, invisible, waiting or dead tasks.
        older_than: Only tasks that were pushed, or died, this long ago.
        worker: With release: all that this worker holds.
        held_for: With release: all that is held this long.
        dry_run: Only count the tasks, and print their number.
        yes: Do not ask. Needed where nobody can answer.

    Seldom needed:
        key_prefix: Only keys that begin with this.
        least: Only this priority and higher ones.
        most: Only this priority and lower ones.
        text: Only tasks with this in their group, key, error or payload; or with this id.
        because: With bury: the reason.
        rate: With replay: tasks per second; if not given, all at once.
    """
    if (priority is not None) != (action == "update"):
        raise typer.BadParameter("update needs a --priority, and no other action has one")
    leases = worker is not None or held_for is not None
    if leases and action != "release":
        raise typer.BadParameter("--worker and --held-for go with release")
    texts = {"group": group, "text": text, "reason": reason, "key_prefix": key_prefix}
    given: Any = {name: each for name, each in texts.items() if each is not None}
    chosen = Filter(state, least=least, most=most, older_than=older_than, **given)
    if (action == "drop" or leases) and (chosen != Filter() or dry_run):
        raise typer.BadParameter("drop, --worker and --held-for go with no filter")
    whose = "" if action == "drop" else "tasks of "
    if action in DESTROYS and not dry_run and not _agreed(action, f"{whose}{q.queue_name!r}", yes):
        return
    if action == "drop":
        stats = q.stats()
        q.admin.drop()
        print(sum(getattr(stats, each) for each in TaskState))
    elif leases:
        _release_held(q, worker, held_for, yes)
    elif dry_run:
        states = [each for each in OF_STATES[action] if state in (None, each)]
        print(sum(q.admin.count(chosen.of(each)) for each in states))
    else:
        by = this_user("dpq admin bulk")
        more: Any = {"priority": priority, "reason": because, "rate": rate, "by": by}
        with _shown() as show:
            made = q.admin.bulk(action, chosen, progress=show, **more)
        print(made.done)
        if made.missed:
            talk(f"{many(made.missed, 'task')} had changed meanwhile: left alone")
        if made.stopped:
            raise Failed(f"stopped: changed {made.done} of {many(made.count, 'task')}")


def _release_held(q: DPQ[Any], worker: str | None, held_for: float | None, yes: bool) -> None:
    """Give back all leases of a worker or of an age, in steps; ask before."""
    found = q.admin.held(10**9, worker=worker, older_than=held_for)
    told = [each for each in q.admin.workers() if worker in (each.name, each.id)]
    if not found:
        talk(f"nothing to give back in {q.queue_name!r}")
    elif _agreed("give back", f"{len(found)} running tasks of {q.queue_name!r}", yes):
        done = q.admin.release_held(found)
        talk(f"gave back {done}; {len(found) - done} had ended meanwhile")
        print(done)
    if more := sum(max(0, each.holds - MOST_NAMED) for each in told):
        talk(f"it holds {more} more: a heartbeat names {MOST_NAMED}. Do it again in 10 s")


def _agreed(verb: str, what: str, yes: bool) -> bool:
    """Ask at a terminal; elsewhere demand `--yes`."""
    if not yes and not _terminal.asks():
        raise typer.BadParameter(f"to {verb} {what}, add --yes", param_hint="--yes")
    return yes or typer.confirm(shown(f"{verb.capitalize()} {what}?"), err=True)


@contextmanager
def _shown() -> Iterator[Callable[[BulkProgress], bool]]:
    """Show the progress of the body; Ctrl-C stops it after a step, a second one at once."""
    stops = False

    def stop(*_: object) -> None:
        nonlocal stops
        signal.signal(signal.SIGINT, before)
        stops = True

    def show(now: BulkProgress) -> bool:
        acted = now.done + now.missed
        told = f"{acted} of {now.count} done" if acted else f"{now.count} found"
        bar.show(told, acted, max(1, now.count))
        return not stops

    before = signal.signal(signal.SIGINT, stop)
    try:
        with Bar(BarColumn()) as bar:
            yield show
    finally:
        signal.signal(signal.SIGINT, before)


# Export and import


class _Counted:
    """Lines that show on stderr how many were read or written."""

    def __init__(self, lines: Any, what: str) -> None:
        self._lines, self._what = lines, what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lines, name)  # a file can go back to a place

    def __iter__(self) -> Iterator[Any]:
        with Bar() as bar:
            for done, line in enumerate(self._lines, 1):
                yield line
                bar.show(f"{done} lines {self._what}", done)


@cmd.on_queue
def export(q: DPQ[Any]) -> None:
    """Write a queue to stdout, as lines of JSON: settings, limits and all tasks.

    Send stdout to a file; `dpq admin import` reads it. Pause the queue first for an exact copy: a
    task that moves during the export is written as it was at some moment, a new one perhaps not.
    """
    first, line, queue = "", "{}", q.queue_name
    for line in _Counted(q.admin.export(), "written"):
        sys.stdout.write(line)
        first = first or line
    sys.stdout.flush()
    end = from_json(line)
    talk(f"exported {_stored(end['tasks'], end['limits'])} of {queue!r}")
    if end["damaged"]:
        raise Failed(
            f"{end['damaged']} tasks or seen keys are damaged, and an import leaves them out: "
            f"`dpq doctor --queue {queue}` names them"
        )
    if end["changed"] and from_json(first)["paused_until"]:
        changes = ", ".join(f"{total} {count:+}" for total, count in end["changed"].items())
        raise Failed(
            f"this is no exact copy: the queue has changed meanwhile ({changes}); stop producers, "
            "and wait until no task is running, then export again"
        )


@cmd.on_new_queue
def import_(
    q: DPQ[Any],
    file: Annotated[Path | None, cmd.option("PATH")] = None,
    follow: bool = False,
    keep: bool = False,
    again: bool = False,
    order: cmd.NewOrder | None = None,
) -> None:
    """Add the tasks of an export to a queue, from stdin; nothing is added twice.

    A queue that does not exist gets the settings and limits of the export. After an error, give the
    same command again: it goes on where it was.

    Args:
        file: The export; without it, or for -, stdin is read.
        follow: Keep the queue's settings and limits, not the export's.
        keep: Leave out tasks whose id or key another task has.
        again: Also add tasks that were imported before, if they are no longer stored.
    """
    with open_lines(file, "give an export on stdin (< FILE), or --file PATH") as stream:
        report = q.admin.import_(_Counted(stream, "read"), follow=follow, keep=keep, again=again)
    paused = not report.before and q.why().state == "paused"
    talk(f"imported {_stored(report.added, report.limits)} into {q.queue_name!r}")
    for count, why in (
        (report.stored, "stored already, and left alone"),
        (report.before, "imported before; --again adds what is not stored any more"),
        (report.damaged, "damaged in the export, and left out"),
    ):
        if count:
            talk(f"{many(count, 'task was', 'tasks were')} {why}")
    if paused:
        talk(f"it is paused, as the exported queue was: dpq admin resume --queue {q.queue_name}")


def _stored(tasks: int, limits: int) -> str:
    return f"{many(tasks, 'task')} and {many(limits, 'limit')}"
