"""A call of a script as a value, and what makes one for a queue. No I/O."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from dpq import _replies
from dpq._arguments import MAX_NAME_BYTES, label, queue_label
from dpq._durable import PROMISES, Unconfirmed
from dpq._keys import key_of
from dpq._replies import TaskName
from dpq._schedule import Later
from dpq._scripts import Script, script
from dpq.errors import ConfigurationError, DPQError
from dpq.models import Task

T = TypeVar("T")

Steps = Generator["Command[Any]", Any, T]
"""An operation of several round trips: yields commands, is sent their results, returns its own."""


class Command(NamedTuple, Generic[T]):
    """One call of one script, as a value (a tuple: it is made for every call)."""

    script: Script
    keys: tuple[str, ...]
    args: Sequence[str | bytes | int | float]
    parse: Callable[[Any], T]


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
    except Exception as error:
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


def go_on(steps: Steps[T], command: Command[Any], reply: Any) -> Command[Any]:
    """Tell an operation the reply of its command, or the error that it met; what it asks next.

    Raises:
        StopIteration: It has ended, with this value.
        Exception: It has failed.
    """
    if not isinstance(reply, Exception):
        try:
            result = parsed(command, reply)
        except Exception as error:
            reply = error
        else:
            return steps.send(result)
    return steps.throw(reply)


def once(command: Command[T]) -> Steps[T]:
    """An operation of one command."""
    result: T = yield command
    return result


def together(
    operations: Sequence[Steps[Any]],
) -> Generator[list[Command[Any]], list[Any], list[Any]]:
    """Run operations in step: the commands of all that go on travel in one round trip.

    Yields commands and is sent their raw replies, or the errors that they met.

    Returns:
        For each operation its result, or the exception that it ended with.
    """
    results: list[Any] = [None] * len(operations)
    asked: list[tuple[int, Command[Any]]] = []
    for index, steps in enumerate(operations):  # arguments are checked before a server is asked
        try:
            asked.append((index, next(steps)))
        except StopIteration as end:
            results[index] = end.value
        except Exception as error:
            results[index] = error
    while asked:
        answered, asked = asked, []
        replies = yield [command for _, command in answered]
        for (index, command), reply in zip(answered, replies, strict=True):
            try:
                asked.append((index, go_on(operations[index], command, reply)))
            except StopIteration as end:
                results[index] = end.value
            except Exception as error:
                results[index] = error
    return results


def confirmed(steps: Steps[T]) -> Steps[T]:
    """An operation, at whose end it is told when something of it is not confirmed.

    Not of one that begins with something that nobody waits for: a pop that buries something on its
    way has tasks to hand out.

    Raises:
        NotConfirmedError: In the place of the result.
    """
    unsure: list[Unconfirmed] = []

    def noting(command: Command[Any]) -> Command[Any]:
        def parse(reply: Any) -> Any:
            if isinstance(reply, Unconfirmed):
                unsure.append(reply)
                reply = reply.reply
            return command.parse(reply)

        return command._replace(parse=parse)

    try:
        command = next(steps)
        action = command.script.name
        while True:
            try:
                result = yield noting(command)
            except Exception as error:
                command = steps.throw(error)
            else:
                command = steps.send(result)
    except StopIteration as end:
        value: T = end.value
    if unsure and action in PROMISES and not isinstance(value, Later):  # else it is asked again
        raise unsure[-1].error(action, value)
    return value


class CommandMaker:
    """Makes the commands of one queue: finds scripts and keys."""

    def __init__(self, queue_name: str, clock: Callable[[], int] | None) -> None:
        self.queue_name = queue_label(queue_name)
        self._clock = clock
        self._keys: dict[str, tuple[str, ...]] = {}

    def _command(
        self, name: str, args: Sequence[str | bytes | int | float], parse: Callable[[Any], T]
    ) -> Command[T]:
        called = script(name)
        keys = self._keys.get(name)
        if keys is None:
            keys = tuple(key_of(self.queue_name, part) for part in called.parts)
            self._keys[name] = keys
        return Command(called, keys, args, parse)

    def _now(self) -> int | str:
        return self._clock() if self._clock else ""

    def _of_holder(
        self, script_name: str, action: str, task: Task[Any], *args: Any
    ) -> Command[int]:
        read = _replies.read_lease(action, leased(task).id)
        return self._command(script_name, [self._now(), task.id, task.token, *args], read)
