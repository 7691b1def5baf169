"""The dead letters of an asyncio queue, as `q.dead`."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic

from dpq.model.task import DeadTask, P
from dpq.queue.dead import chosen_by, some_ids

if TYPE_CHECKING:
    from dpq.queue.queue_async import AsyncDPQ

__all__ = ["AsyncDeadLetters"]


class AsyncDeadLetters(Generic[P]):
    """The dead letters of one queue: `q.dead`."""

    def __init__(self, queue: AsyncDPQ[P]) -> None:
        self._queue = queue

    async def list(
        self,
        n: int = 100,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> list[DeadTask[P]]:
        """Async `DeadLetters.list`."""
        commands = self._queue._commands
        return await self._queue._drive(commands.dead_list(n, chosen_by(reason, group, where)))

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
        commands = self._queue._commands
        return await self._queue._drive(
            commands.dead_replay(some_ids(ids), chosen_by(reason, group, where), rate)
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
        commands = self._queue._commands
        return await self._queue._drive(
            commands.dead_purge(some_ids(ids), chosen_by(reason, group, where))
        )
