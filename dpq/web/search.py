"""Reading for the pages of tasks: a search through all states of a queue, and holders. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dpq.model.filter import Filter
from dpq.model.reports import LeaseInfo
from dpq.model.task import Task, TaskState
from dpq.script.command import Steps
from dpq.verbs.browse import Browser, Position
from dpq.verbs.queue import QueueOperations
from dpq.verbs.workers import lease_info


class Search(NamedTuple):
    """A search, as far as it has come: the states that are left, and the place in the first."""

    states: tuple[TaskState, ...]
    position: Position = None
    looked: int = 0
    found: Mapping[str, int] = {}


class Hits(NamedTuple):
    """The tasks that one request has found, and the search after them; `left`: in its state."""

    tasks: list[Task[Any]]
    search: Search
    left: int


def begin(sizes: Mapping[TaskState, int]) -> Search:
    """Begin a search in all states, the smallest first: it shows what it finds there at once."""
    return Search(tuple(sorted(sizes, key=lambda state: sizes[state])))


def find(browser: Browser, chosen: Filter, search: Search, most: int, look: int) -> Steps[Hits]:
    """Find tasks, up to `most` of them among about `look`; `chosen.state` does not count."""
    tasks: list[Task[Any]] = []
    states, position, looked, left = list(search.states), search.position, 0, 0
    found = dict(search.found)
    while states and len(tasks) < most and looked < look:
        only = replace(chosen, state=states[0])
        newest = only.state is TaskState.DEAD
        page = yield from browser.search(
            only, position, most - len(tasks), look - looked, newest=newest
        )
        tasks += page.tasks
        looked, left, position = looked + page.looked, page.left, page.position
        found[states[0]] = found.get(states[0], 0) + len(page.tasks)
        if left:  # the page is full, by its tasks, its looks or its bytes
            break
        del states[0]
        position = None
    return Hits(tasks, Search(tuple(states), position, search.looked + looked, found), left)


def holders(
    queue: QueueOperations[Any], tasks: Sequence[Task[Any]], now_ms: float
) -> Steps[list[LeaseInfo]]:
    """Read which worker has each of some running tasks."""
    told = yield from queue.told()
    return [lease_info(queue.queue_name, task, now_ms, told) for task in tasks]
