"""The warnings beside the state of a queue: what will go wrong, or goes wrong in silence. No I/O.

To add one: name it in `Warned`, with its remedy, and find it here. docs/operations.md has a row for
each, and tests/daemon/test_verdicts.py plants each.
"""

from collections.abc import Iterator

from dpq.explain.incidents import Warned
from dpq.explain.verdict_facts import Facts
from dpq.model.queue_settings import DEFAULT_SEEN_MAX_KEYS


def warnings_of(facts: Facts) -> list[tuple[Warned, str, str]]:
    """Find what goes wrong beside the state: each its kind, a part of a sentence, the remedy."""
    return [(kind, said, facts.remedy(kind, **named)) for kind, said, named in _found(facts)]


def _found(facts: Facts) -> Iterator[tuple[Warned, str, dict[str, str]]]:
    survey = facts.survey
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
        yield Warned.KEY_HELD, f"{letters}, {survey.key!r}: a push with it may add no task", {}
    if batch := survey.batch:
        left = survey.batch_left
        said = f"batch {batch!r} cannot end: {left} of its tasks {'is' if left == 1 else 'are'} "
        said += "left, and none has ended since "
        yield Warned.BATCH_STANDS, said + facts.say(survey.batch_since_ms), {"batch": batch}
    policy = survey.server.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and survey.server.get("maxmemory", "0") != "0":
        yield Warned.EVICTS, "the server deletes tasks when its memory is full", {}
