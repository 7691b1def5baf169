"""A call of a script as a value, and what makes one for a queue. No I/O."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from dpq.model.errors import ConfigurationError, DPQError
from dpq.model.interrupts import FAULTS, expected, raise_interruption
from dpq.model.schedule import Later
from dpq.model.task import Task, TaskName
from dpq.model.validation import MAX_NAME_BYTES, label
from dpq.protocol.durability import Unconfirmed
from dpq.protocol.keys import key_of
from dpq.protocol.scripts import Script, script

T = TypeVar("T")

Steps = Generator["Command[Any] | list[Command[Any]]", Any, T]
"""An operation of several round trips: yields commands, is sent their results, returns its own.
For a list of commands, which travel together, it is sent their raw replies, as `together` is."""


class Command(NamedTuple, Generic[T]):
    """One call of one script, as a value (a tuple: it is made for every call).

    `loose`: nobody has to vouch for it, whatever the script promises and `durability` asks for.
    """

    script: Script
    keys: tuple[str, ...]
    args: Sequence[str | bytes | int | float]
    parse: Callable[[Any], T]
    loose: bool = False


Together = Generator[list[Command[Any]], list[Any], list[Any]]
"""Operations that are run in step; see `together`."""

_Request = Command[Any] | list[Command[Any]]


def parsed(command: Command[T], reply: Any) -> T:
    """Read a reply.

    Raises:
        DPQError: What the command's reader raises; and when what is stored cannot be read, because
            somebody else wrote into Redis.
    """
    try:
        return command.parse(reply)
    except DPQError:
        raise
    except FAULTS as error:
        raise_interruption(error)
        raise DPQError(
            f"the answer of {command.script.name} for {command.keys[0]} cannot be read: {error!r}. "
            "Somebody has written into the queue's keys: check() names what is damaged"
        ) from error


def same(reply: Any) -> Any:
    """Read a reply that says all by itself."""
    return reply


def leased(value: Any) -> Task[Any]:
    """Check the task that a holder's call names."""
    if not isinstance(value, Task):
        raise ConfigurationError(f"task is {value!r}: it must be the Task that pop returned")
    return value


def task_id(value: Any) -> str:
    """Check the id of a task."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_BYTES or not value.isascii():
        raise ConfigurationError(f"id is {value!r}: it must be the string that push returned")
    return value


def task_name(id_: Any, key: Any) -> TaskName:
    """Check what names a task: its id or its key."""
    if (id_ is None) == (key is None):
        raise ConfigurationError(
            f"task_id is {id_!r} and key is {key!r}: give one of them; task_id must be the string "
            "that push returned"
        )
    return TaskName(task_id(id_), "") if key is None else TaskName("", label("key", key))


def once(command: Command[T]) -> Steps[T]:
    """An operation of one command."""
    result: T = yield command
    return result


def all_of(operations: Iterable[Steps[T]]) -> Steps[list[T]]:
    """Run operations in step, as one operation.

    Raises:
        Exception: The first that one of them ended with, once all have ended.
    """
    results = yield from together(list(operations))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class Operation(Generic[T]):
    """An operation under way: what it asks next, and what it comes to.

    Attributes:
        result: What it has come to, once it asks nothing more.
    """

    __slots__ = ("_action", "_request", "_steps", "_unsure", "result")

    _request: _Request
    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._unsure: Unconfirmed | None = None
        self._action = ""  # the script for which nobody has vouched

    def begin(self) -> Sequence[Command[Any]] | None:
        """What it asks first; None when it has ended.

        Raises:
            Exception: An argument is wrong.
        """
        return self._ask(self._steps.send, None)

    def go_on(self, replies: Sequence[Any]) -> Sequence[Command[Any]] | None:
        """What it asks next, after the raw replies to the last, or the errors that they met.

        Raises:
            Exception: It has failed: what a reply says, or `NotConfirmedError` when it has ended
                and something of it is not confirmed.
        """
        command = self._request
        if not isinstance(command, Command):
            asked = zip(command, replies, strict=True)
            return self._ask(self._steps.send, [self._heard(*each) for each in asked])
        reply = self._heard(command, replies[0])
        if not isinstance(reply, Exception):
            try:
                reply = parsed(command, reply)
            except DPQError as error:
                reply = error
            else:
                if isinstance(reply, Later):  # nothing has changed: it is asked again
                    self._unsure = None
                return self._ask(self._steps.send, reply)
        return self._ask(self._steps.throw, reply)

    def _ask(self, tell: Callable[[Any], _Request], what: Any) -> Sequence[Command[Any]] | None:
        try:
            self._request = request = tell(what)
        except StopIteration as end:
            if self._unsure:
                raise self._unsure.error(self._action, end.value) from None
            self.result = end.value
            return None
        commands = (request,) if isinstance(request, Command) else request
        if self._unsure:  # nobody vouches for the whole, so what is left is not waited for
            return [command._replace(loose=True) for command in commands]
        return commands

    def _heard(self, command: Command[Any], reply: Any) -> Any:
        """A reply, which may be one that nobody has vouched for."""
        if isinstance(reply, Unconfirmed):
            self._unsure, self._action = reply, command.script.name
            return reply.reply
        return reply


def together(operations: Sequence[Steps[Any]]) -> Together:
    """Run operations in step: the commands of all that go on travel in one round trip.

    Yields commands and is sent their raw replies, or the errors that they met.

    Returns:
        For each operation its result, or the exception that it ended with.
    """
    results: list[Any] = [None] * len(operations)
    under_way: list[tuple[int, Operation[Any], int]] = []
    commands: list[Command[Any]] = []

    def advance(index: int, operation: Operation[Any], replies: Sequence[Any] | None) -> None:
        try:
            asked = operation.begin() if replies is None else operation.go_on(replies)
        except Exception as error:
            if not expected(error):  # what interrupts is of no operation
                raise
            results[index] = error
            return
        if asked is None:
            results[index] = operation.result
        else:
            under_way.append((index, operation, len(asked)))
            commands.extend(asked)

    for index, steps in enumerate(operations):
        advance(index, Operation(steps), None)  # arguments are checked before a server is asked
    while under_way:
        answered, under_way = under_way, []
        replies = yield commands
        commands = []
        first = 0
        for index, operation, count in answered:
            advance(index, operation, replies[first : first + count])
            first += count
    return results


class CommandMaker:
    """Makes the commands of one partition: finds scripts and keys."""

    def __init__(self, queue_name: str, tag: str, clock: Callable[[], int] | None) -> None:
        self.queue_name = queue_name
        self._tag = tag  # of its keys
        self._clock = clock
        self._keys: dict[str, tuple[str, ...]] = {}

    def _command(
        self, name: str, args: Sequence[str | bytes | int | float], parse: Callable[[Any], T]
    ) -> Command[T]:
        called = script(name)
        keys = self._keys.get(name)
        if keys is None:
            keys = tuple(key_of(self._tag, part) for part in called.parts)
            self._keys[name] = keys
        return Command(called, keys, args, parse)

    def _ask(
        self, name: str, args: Sequence[str | bytes | int | float], parse: Callable[[Any], T]
    ) -> Steps[T]:
        """An operation of one command."""
        result: T = yield self._command(name, args, parse)
        return result

    def _now(self) -> int | str:
        return self._clock() if self._clock else ""
