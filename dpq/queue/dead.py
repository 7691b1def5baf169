"""The dead letters of a queue, as `q.dead`: list, replay, purge."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Iterable
from typing import Generic

from dpq.model.task import DeadTask, P
from dpq.operations.dead import chosen_by, some_ids
from dpq.operations.queue import QueueOperations
from dpq.transport.session import QueueSession

__all__ = ["DeadLetters"]


class DeadLetters(Generic[P]):
    """The dead letters of one queue: `q.dead`."""

    def __init__(self, session: QueueSession[QueueOperations[P]]) -> None:
        self._session = session

    def list(
        self,
        n: int = 100,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> list[DeadTask[P]]:
        """List up to `n` dead tasks, the longest dead first.

        Args:
            n: At most so many.
            reason: Only those with this reason.
            group: Only those of this group.
            where: Only those for which it is true.
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
        """Make dead tasks live again, with all their attempts before them and their old places.

        Args:
            ids: One id or several; None for all that the filters choose. None at all, `[]`, changes
                nothing: with `durability` that only asks whether all so far is confirmed.
            reason: Only those with this reason.
            group: Only those of this group.
            where: Only those for which it is true.
            rate: Tasks per second, from 0.001: they come due one after the other. None: all at
                once.

        Returns:
            How many came back. An id that is not dead is passed over, so a retry is harmless.
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
            How many went.
        """
        return self._session.run(
            self._session.operations.dead_purge, some_ids(ids), chosen_by(reason, group, where)
        )
