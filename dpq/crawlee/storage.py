"""The storage client of crawlee whose request queues are queues of DPQ."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

from crawlee.configuration import Configuration
from crawlee.storage_clients import MemoryStorageClient, StorageClient

from dpq import AsyncDPQ
from dpq.crawlee.request_queue import DPQRequestQueueClient


class DPQStorageClient(StorageClient):
    """Opens request queues on DPQ, and datasets and key-value stores elsewhere."""

    def __init__(
        self, url: str, *, other: StorageClient | None = None, prefix: str = "crawlee-"
    ) -> None:
        """Describe the storage; nothing is opened yet.

        Args:
            url: The server, as `AsyncDPQ.from_url` takes it.
            other: The storage client of datasets and key-value stores; None keeps them in memory.
            prefix: The beginning of the names of all queues; behind it stands crawlee's name.
        """
        self._url, self._prefix = url, prefix
        self._other = MemoryStorageClient() if other is None else other
        self._opened: list[DPQRequestQueueClient] = []

    def get_storage_client_cache_key(self, configuration: Configuration) -> Hashable:
        """Return a key by which crawlee finds storages that it has opened before."""
        return (type(self).__name__, id(self))

    async def create_rq_client(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        alias: str | None = None,
        configuration: Configuration | None = None,
    ) -> DPQRequestQueueClient:
        """Open a request queue. An unnamed one is purged, if the configuration says so."""
        queue_name = id or f"{self._prefix}{name or alias or 'default'}"
        queue: AsyncDPQ[Any] = AsyncDPQ.from_url(self._url, queue_name)
        client = DPQRequestQueueClient(queue, name)
        self._opened.append(client)
        await self._purge_if_needed(client, configuration or Configuration())
        return client

    async def create_dataset_client(self, **named: Any) -> Any:
        """Open a dataset with the other storage client."""
        return await self._other.create_dataset_client(**named)

    async def create_kvs_client(self, **named: Any) -> Any:
        """Open a key-value store with the other storage client."""
        return await self._other.create_kvs_client(**named)

    async def aclose(self) -> None:
        """Give back what is in progress, and close all queues."""
        while self._opened:
            await self._opened.pop().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
