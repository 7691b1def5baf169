"""The commands of a queue whose number of partitions this client has not named. No I/O.

A client that names none follows the queue. Until it has seen the queue, each operation begins with
nothing: the shell then agrees with the server on the settings, and the operation goes on with what
the queue turns out to be.
"""

from collections.abc import Iterator
from inspect import isfunction
from typing import Any, Generic, TypeVar, cast

from dpq.model.interrupts import expected
from dpq.model.validation import whole_number
from dpq.operations.partition import Commands
from dpq.operations.partitions import PartitionedCommands
from dpq.operations.settings import partition_count
from dpq.protocol.command import Steps, steps_of
from dpq.protocol.placement import MAX_PARTITIONS

P = TypeVar("P")
T = TypeVar("T")

_OPERATIONS = {
    name
    for base in Commands.__mro__
    for name, member in vars(base).items()
    if isfunction(member) and name[0] != "_"
}

_MAKES_THE_QUEUE = {"push", "push_many"}


def commands_of(plain: Commands[P], ask: int) -> Commands[P]:
    """What builds the commands of a queue, by what this client knows of its partitions.

    All have the same methods; of some the result is `Steps` where it else is a `Command`.
    """
    whole_number("ask", ask, 1, MAX_PARTITIONS)
    if "partitions" not in plain.named:
        return cast("Commands[P]", Following(plain, ask))
    return _for_count(plain, int(plain.named["partitions"]), ask)


def _for_count(plain: Commands[P], count: int, ask: int) -> Commands[P]:
    if count == 1:
        return plain.undivided()
    return cast("Commands[P]", PartitionedCommands(plain, count, ask))


class Following(Generic[P]):
    """Builds commands of a queue that was not seen yet.

    Attributes:
        seen: Its settings, once an operation has met it.
    """

    def __init__(self, plain: Commands[P], ask: int) -> None:
        self._plain = plain
        self._ask = ask
        self._found: Commands[P] | None = None
        self.seen: dict[str, str] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _OPERATIONS:
            return lambda *args, **named: self._follow(name, args, named)
        return getattr(self.__dict__["_plain"], name)

    def open(self, *, create: bool = False) -> Steps[dict[str, str]]:
        """As `Commands.open`."""
        return self._plain.open(create=create)

    def drop(self) -> Steps[None]:
        """As `Commands.drop`, which asks itself what there is."""
        return self._plain.drop()

    def settled(self, settings: dict[str, str]) -> Any:
        """What the shell uses from now on: what the queue is, once it is there."""
        if self._found is None and "format" in settings:
            self._found = _for_count(self._plain, partition_count(settings), self._ask)
            self.seen = settings
        return self._found or self

    def _follow(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Steps[Any]:
        begun: Steps[Any] | None = None
        if not any(isinstance(arg, Iterator) for arg in args):  # else it can be read only once
            begun = steps_of(getattr(self._plain, name)(*args, **named))
        return self._go_on(begun, name, args, named)

    def _go_on(
        self, begun: Steps[Any] | None, name: str, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Steps[Any]:
        first: Any = None
        if begun:
            try:
                first = next(begun)  # checks the arguments
            except StopIteration as end:
                return end.value
        yield []
        if self._found is None and name in _MAKES_THE_QUEUE:
            self.settled((yield from self._plain.open(create=True)))
        found = self._found or self._plain
        if begun and found is self._plain:
            return (yield from _resumed(begun, first))
        if begun:
            begun.close()
        return (yield from steps_of(getattr(found, name)(*args, **named)))


def _resumed(steps: Steps[T], request: Any) -> Steps[T]:
    """Go on with an operation that has yielded its first request already."""
    try:
        while True:
            try:
                answer = yield request
            except Exception as error:
                if not expected(error):
                    raise
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        return cast("T", end.value)
