"""`dpq admin bulk`: an action on all tasks that pass a filter, with its progress."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn

from dpq import DPQ, Filter, TaskState
from dpq.cli import _command as cmd
from dpq.cli import _terminal
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, talk
from dpq.model.display import shown
from dpq.types import BulkProgress
from dpq.verbs.bulk import OF_STATES
from dpq.verbs.workers import MOST_NAMED
from dpq.views.words import this_user

DESTROYS = ("cancel", "bury", "purge", "drop")
"""Actions that need --yes."""

MOST_LEASES = 10**9

Action = Literal["cancel", "update", "run", "release", "bury", "replay", "purge", "drop"]


@cmd.on_queue
def bulk(
    q: DPQ[Any],
    action: Annotated[Action, typer.Argument()],
    state: TaskState | None = None,
    group: cmd.OfGroup | None = None,
    key_prefix: cmd.Text | None = None,
    least: cmd.Limited | None = None,
    most: cmd.Limited | None = None,
    older_than: cmd.Seconds | None = None,
    text: cmd.Text | None = None,
    reason: cmd.OfReason | None = None,
    priority: cmd.NewPriority | None = None,
    because: cmd.Text | None = None,
    rate: cmd.Limited | None = None,
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
        state: Only tasks of this state.
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
            talk(f"{made.missed} tasks had changed meanwhile, and were left")
        if made.stopped:
            raise Failed(f"stopped: {made.done} of {made.count} tasks were changed")


def _release_held(q: DPQ[Any], worker: str | None, held_for: float | None, yes: bool) -> None:
    """Give back all leases of a worker or of an age, in steps; ask before."""
    found = q.admin.held(MOST_LEASES, worker=worker, older_than=held_for)
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
        with Bar(BarColumn(), at_once=True) as bar:
            yield show
    finally:
        signal.signal(signal.SIGINT, before)
