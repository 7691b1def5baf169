"""The search of the dashboard: it goes through the states of a queue one after another. No I/O.

`Browser.search` looks at tasks of one state. `find` calls it for each state that is left, within
the bounds of one request, and says how far it came. The next request goes on from there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dpq.model.filter import Filter
from dpq.model.task import Task, TaskState
from dpq.script.command import Steps
from dpq.verbs.browse import Browser, Position


class Search(NamedTuple):
    """A search, as far as it has come.

    Attributes:
        states: The states that are left, the current one first.
        position: The place in the current state.
        looked: Tasks that were looked at since the search began.
        found: The number of tasks that passed, by state.
    """

    states: tuple[TaskState, ...]
    position: Position = None
    looked: int = 0
    found: Mapping[str, int] = {}


class Hits(NamedTuple):
    """The tasks that one request has found.

    Attributes:
        tasks: The tasks.
        search: The search after them; without states if nothing is left.
        left: Tasks that are left in its current state.
    """

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
        page = yield from browser.search(only, position, most - len(tasks), look - looked)
        tasks += page.tasks
        looked, left, position = looked + page.looked, page.left, page.position
        found[states[0]] = found.get(states[0], 0) + len(page.tasks)
        if left:  # the page is full, by its tasks, its looks or its bytes
            break
        del states[0]
        position = None
    return Hits(tasks, Search(tuple(states), position, search.looked + looked, found), left)
