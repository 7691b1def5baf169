"""The base of the operations on a queue: its keys and its settings. No I/O."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from dpq.model.errors import ConfigurationError
from dpq.model.producer import Producer
from dpq.model.queue_settings import Bounds, WhenFull
from dpq.model.task import P
from dpq.script.command import CommandMaker, Steps, once, same
from dpq.script.keys import STORAGE_FORMAT, key_of
from dpq.script.refusals import read_settings
from dpq.verbs.settings import Description, agree, bounds_of, named_settings

T = TypeVar("T")

BATCH_BYTES = 4 * 1024 * 1024
"""Payload bytes in one call or reply: a larger one would hold up other clients."""

PAGE = 100
"""Tasks in one round trip of reading, checking or purging."""


class OperationsBase(CommandMaker, Generic[P]):
    """A queue and its settings, for every class of operations on it.

    `settings` are the stored ones; None before they are read, and while the queue does not exist.
    """

    settings: dict[str, str] | None = None

    def __init__(self, queue: Description[P]) -> None:
        super().__init__(queue.name, queue.clock)
        self.description = queue
        self.named = queue.named
        self._codec = queue.codec
        self.marker = key_of(queue.name, "wake")  # the key that waiting consumers block on
        self.tick = key_of(queue.name, "tick")  # the key that daemons block on
        self.conf = key_of(queue.name, "conf")  # the key that daemons glance at

    # Settings

    def forget(self) -> None:
        """Forget the settings: the queue is gone, and a new queue of its name may have others."""
        self.settings = None

    def open(self, *, create: bool = False) -> Steps[None]:
        """Read the settings, write the named ones, and register a queue that exists."""
        settings = yield from self.configure(create=create)
        exists = "format" in settings
        self.settings = settings if exists else None
        if exists:
            yield from self.enter()

    def after_opening(self, verb: Callable[[], Steps[T]]) -> Steps[T]:
        """Run an operation, and read the settings before it, unless they are known."""
        if self.settings is None:
            yield from self.open()
        return (yield from verb())

    def set_bounds(
        self, max_tasks: int | None, max_waiting: int | None, when_full: WhenFull | None
    ) -> Steps[None]:
        """Replace the named bounds, and call the producers that have room now."""
        bounds = {"max_tasks": max_tasks, "max_waiting": max_waiting, "when_full": when_full}
        if not (named := named_settings(bounds)):
            raise ConfigurationError(
                "set_bounds changes nothing: give max_tasks, max_waiting or when_full"
            )
        yield from self.open(create=True)
        yield from self.configure(create=True, named=named, replace=True)

    def bounds(self) -> Steps[Bounds]:
        return bounds_of((yield from self.stored_settings()))

    def await_room(self, producer: Producer, *, leave: bool = False) -> Steps[bool]:
        """Let a producer stand in the line, or leave it; True if it is to wait until it is
        called."""
        place, ms = producer.place or producer.id, 0 if leave else producer.wait_ms
        args = [self._now(), producer.group, place, ms, producer.channel]
        stands, text = yield self._command("await_room", args, tuple[Any, ...])
        producer.place = "" if leave else text.decode()
        return bool(stands)

    def configure(
        self, *, create: bool = False, named: dict[str, str] | None = None, replace: bool = False
    ) -> Steps[dict[str, str]]:
        """Write the settings that this client names and no client has named before; read all."""
        named = self.named if named is None else named
        flat = [text for pair in named.items() for text in pair]
        read = partial(agree, self.queue_name, named)
        mode = 2 if replace else int(create)
        args = [self._now(), STORAGE_FORMAT, mode, *flat]
        command = self._command("configure", args, read)
        # `Confirmation` confirms settings with the first task.
        settings: dict[str, str] = yield command._replace(needs_confirmation=False)
        return settings

    def stored_settings(self) -> Steps[dict[str, str]]:
        """Read the settings, without checks."""
        command = self._command("configure", [self._now(), STORAGE_FORMAT, 0], read_settings)
        return once(command._replace(needs_confirmation=False))

    def register(self) -> Steps[Any]:
        """Add the queue to the registry that daemons and the CLI read."""
        return self._ask("register", [self.queue_name], same)

    def enter(self) -> Steps[None]:
        """Add the queue to the registry if possible; an error is ignored, and the queue works."""
        # `same` accepts an error as the answer.
        yield [self._command("register", [self.queue_name], same)]

    def unregister(self) -> Steps[Any]:
        """Remove the queue from the registry."""
        return self._ask("unregister", [self.queue_name], same)

    def drop(self) -> Steps[None]:
        """Remove the whole queue, and its name in the registry."""
        yield self._command("drop", [], same)
        yield from self.unregister()
        if "format" in (yield from self.stored_settings()):  # another client has created it again
            yield from self.enter()


def in_batches(
    items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 0
) -> Iterator[list[T]]:
    """Cut items into parts of at most `most`, whose sizes are 4 MiB together, or one is larger."""
    batch: list[T] = []
    total = 0
    for item in items:
        own = size(item)
        if batch and (len(batch) == most or total + own > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch
