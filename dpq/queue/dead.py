# Made from dead_async.py by `make twins`: change that file, not this one.
"""The dead letters of a blocking queue, `q.dead`: list, replay, purge. It only sends."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Iterable
from typing import Generic

from dpq.explain.operations import Operations
from dpq.link.session import QueueSession
from dpq.model.task import DeadTask, P
from dpq.verbs.stored import chosen_by, some_ids


class DeadLetters(Generic[P]):
    """The dead letters of one queue: `q.dead`."""

    def __init__(self, session: QueueSession[Operations[P]]) -> None:
        self._session = session

    def list(
        self,
        n: int = 100,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> list[DeadTask[P]]:
        """List up to `n` dead tasks, the longest dead first: those with this `reason`, of this
        `group`, and for which `where` returns True.
        """
        return self._session.run(
            self._session.operations.dead_list, n, chosen_by(reason, group, where)
        )

    def replay(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
        rate: float | None = None,
    ) -> int:
        """Make dead tasks live again, with all their attempts and their old positions.

        Args:
            ids: One id or several; None for all tasks that the filters of `list` choose. `[]`
                changes nothing; with `durability` it asks for a confirmation of all earlier
                changes.
            rate: Tasks per second, from 0.001: they come due one after another. None: all at
                once.

        Returns:
            The number of replayed tasks. An id that is not dead is skipped, so a retry is
            harmless.
        """
        return self._session.run(
            self._session.operations.dead_replay,
            some_ids(ids),
            chosen_by(reason, group, where),
            rate,
        )

    def purge(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> int:
        """Remove dead tasks for good; the arguments are those of `replay`.

        Returns:
            The number of removed tasks.
        """
        return self._session.run(
            self._session.operations.dead_purge, some_ids(ids), chosen_by(reason, group, where)
        )
