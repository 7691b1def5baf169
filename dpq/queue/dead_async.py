"""The dead letters of an asyncio queue, as `q.dead`."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Iterable
from typing import Generic

from dpq.model.task import DeadTask, P
from dpq.operations.dead import chosen_by, some_ids
from dpq.operations.queue import QueueOperations
from dpq.transport.session_async import AsyncQueueSession

__all__ = ["AsyncDeadLetters"]


class AsyncDeadLetters(Generic[P]):
    """The dead letters of one queue: `q.dead`."""

    def __init__(self, session: AsyncQueueSession[QueueOperations[P]]) -> None:
        self._session = session

    async def list(
        self,
        n: int = 100,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> list[DeadTask[P]]:
        """Async `DeadLetters.list`."""
        return await self._session.run(
            self._session.operations.dead_list, n, chosen_by(reason, group, where)
        )

    async def replay(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
        rate: float | None = None,
    ) -> int:
        """Async `DeadLetters.replay`."""
        return await self._session.run(
            self._session.operations.dead_replay,
            some_ids(ids),
            chosen_by(reason, group, where),
            rate,
        )

    async def purge(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> int:
        """Async `DeadLetters.purge`."""
        return await self._session.run(
            self._session.operations.dead_purge, some_ids(ids), chosen_by(reason, group, where)
        )
