"""The warnings beside the state of a queue: what will go wrong, or goes wrong in silence. No I/O.

To add one: name it in `Warned`, with its remedy, and find it here. docs/operations.md has a row for
each, and tests/daemon/test_verdicts.py plants each.
"""

from collections.abc import Iterator

from dpq.explain.incidents import Warned
from dpq.explain.verdict_facts import Facts
from dpq.model.queue_settings import DEFAULT_SEEN_MAX_KEYS

UNSAVED_MS = 7_200_000
"""Milliseconds: a server that makes snapshots makes one an hour after a change, by default."""


def warnings_of(facts: Facts) -> list[tuple[Warned, str, str]]:
    """Find what goes wrong beside the state: each its kind, a part of a sentence, the remedy."""
    return [(kind, said, facts.remedy(kind, **named)) for kind, said, named in _found(facts)]


def _found(facts: Facts) -> Iterator[tuple[Warned, str, dict[str, str]]]:
    survey = facts.survey
    server, saved = survey.server, int(survey.server.get("rdb_last_save_time", 0)) * 1000
    policy = server.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and server.get("maxmemory", "0") != "0":
        gone = int(server.get("evicted_keys", 0))
        said = f"the server deletes keys when its memory is full ({policy})"
        yield Warned.EVICTS, said + f", {gone} so far" * bool(gone), {}
    unsaved = server.get("aof_enabled") == "0" and server.get("rdb_changes_since_last_save") != "0"
    if unsaved and facts.now - saved > UNSAVED_MS:
        said = f"the server writes no AOF, and what came since {facts.say(saved)} is on no disk"
        yield Warned.NOT_SAVED, said, {}
    if survey.full:
        where = f"full: {survey.live} of {survey.max_tasks} tasks"
        yield Warned.FULL, f"{where}, so new tasks are refused", {}
    for held in survey.held[1:]:
        if 0 < survey.max_waiting <= held.due:
            said = f"group {held.state.group!r} is full: {held.due} of {survey.max_waiting} tasks"
            yield Warned.GROUP_FULL, said, {}
            break
    if survey.producers:
        number = "1 producer waits" if survey.producers == 1 else ""
        said = f"{number or f'{survey.producers} producers wait'} for room"
        yield Warned.PRODUCERS_WAIT, said, {}
    most = survey.seen_max or DEFAULT_SEEN_MAX_KEYS
    if facts.stats.seen_keys >= most:
        keys = "1 seen key" if most == 1 else f"{most} seen keys"
        said = f"its bound of {keys} is reached, so the oldest are forgotten early"
        yield Warned.SEEN_FULL, said, {}
    if task := survey.recurs:
        said = f"the recurring task {task} is dead: {survey.recurs_died_of}"
        yield Warned.SCHEDULE_DIED, said, {"task": task}
    if count := survey.keyed:
        letters = "a dead letter keeps its key" if count == 1 else f"{count} dead letters keep keys"
        said = f"{letters}, {survey.key!r}: a push with it may add no task"
        yield Warned.KEY_HELD, said, {"task": survey.key_task}
    if batch := survey.batch:
        left, since = survey.batch_left, facts.say(survey.batch_since_ms)
        kind, said = Warned.NOT_SEALED, f"nothing is left since {since}, but nobody has sealed it"
        if left:
            said = f"{left} of its tasks {'is' if left == 1 else 'are'} left, and none has ended "
            kind, said = Warned.BATCH_STANDS, f"{said}since {since}"
        yield kind, f"batch {batch!r} cannot end: {said}", {"batch": batch}
