"""One script call as data (`Command`), and the generators that yield calls (`Operation`). No I/O.

`operations` builds them, and sessions of `transport` send them:

    operation = Operation(steps)
    commands = operation.begin()                 the first commands, or None
    while commands is not None:
        commands = operation.go_on(send(commands))   the next ones, after the raw replies
    operation.result

It must not know how commands are sent.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from dpq.model.errors import ConfigurationError, DPQError
from dpq.model.schedule import Later
from dpq.model.task import Task, TaskName
from dpq.model.validation import MAX_NAME_BYTES, label
from dpq.protocol.durability import Unconfirmed
from dpq.protocol.keys import key_of
from dpq.protocol.refusals import require_same
from dpq.protocol.scripts import Script, script

T = TypeVar("T")

Steps = Generator["Command[Any] | list[Command[Any]]", Any, T]
"""An operation: it yields a command and is sent its result, until it returns its own result.
It may also yield a list of commands, which travel together, and is sent their raw replies."""


class Command(NamedTuple, Generic[T]):
    """One call of one script, as data. A tuple, since it is made for every call.

    `needs_confirmation`: if False, the call is not confirmed, whatever `durability` asks for.
    """

    script: Script
    keys: tuple[str, ...]
    args: Sequence[str | bytes | int | float]
    parse: Callable[[Any], T]
    needs_confirmation: bool = True


PlainCommand = Sequence[str | bytes | float]
"""The words of a plain Redis command."""

Together = Generator[list[Command[Any]], list[Any], list[Any]]
"""Several operations that run in step; see `together`."""

_Request = Command[Any] | list[Command[Any]]


def parsed(command: Command[T], reply: Any) -> T:
    """Read a reply.

    Raises:
        DPQError: The script refuses this client, or the command's reader refuses the reply; or the
            stored data cannot be read, because another program wrote into Redis.
    """
    try:
        require_same(reply)
        return command.parse(reply)
    except DPQError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DPQError(
            f"the reply of {command.script.name} for {command.keys[0]} cannot be read: {error!r}. "
            "If another program has written into the queue's keys, check() names the damage; if it "
            "names none, this is a fault of DPQ"
        ) from error


def same(reply: Any) -> Any:
    """Return a reply as it is: a reader for replies that need none."""
    return reply


def leased(value: Any) -> Task[Any]:
    """Check the task argument of `ack`, `extend` and others."""
    if not isinstance(value, Task):
        raise ConfigurationError(f"task is {value!r}: it must be the Task that pop returned")
    return value


def task_id(value: Any) -> str:
    """Check the id of a task."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_BYTES or not value.isascii():
        raise ConfigurationError(f"id is {value!r}: it must be the string that push returned")
    return value


def task_name(id_: Any, key: Any) -> TaskName:
    """Check the arguments that name a task: its id or its key."""
    if (id_ is None) == (key is None):
        raise ConfigurationError(
            f"task_id is {id_!r} and key is {key!r}: give one of them; task_id must be the string "
            "that push returned"
        )
    return TaskName(task_id(id_), "") if key is None else TaskName("", label("key", key))


def once(command: Command[T]) -> Steps[T]:
    """Make an operation of one command."""
    result: T = yield command
    return result


def all_of(operations: Iterable[Steps[T]]) -> Steps[list[T]]:
    """Run operations in step, as one operation.

    Raises:
        Exception: The first error of an operation, once all of them have ended.
    """
    steps = list(operations)
    if len(steps) == 1:
        return [(yield from steps[0])]
    results = yield from together(steps)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class Operation(Generic[T]):
    """A running operation: gives the commands to send next, and takes their replies.

    Attributes:
        result: The result, once there are no more commands.
    """

    __slots__ = ("_action", "_request", "_steps", "_unconfirmed", "result")

    _request: _Request
    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._unconfirmed: Unconfirmed | None = None
        self._action = ""  # the name of a script without a confirmation

    def begin(self) -> Sequence[Command[Any]] | None:
        """Return the first commands to send; None if the operation has ended.

        Raises:
            Exception: An argument is wrong.
        """
        return self._resume(self._steps.send, None)

    def go_on(self, replies: Sequence[Any]) -> Sequence[Command[Any]] | None:
        """Take the raw replies to the last commands, or their errors; return the next commands.

        Returns:
            None if the operation has ended.

        Raises:
            Exception: The operation has failed; `NotConfirmedError` if it has ended, but a command
                of it is not confirmed.
        """
        command = self._request
        if not isinstance(command, Command):
            answered = zip(command, replies, strict=True)
            return self._resume(self._steps.send, [self._receive(*each) for each in answered])
        reply = self._receive(command, replies[0])
        if not isinstance(reply, Exception):
            try:
                reply = parsed(command, reply)
            except DPQError as error:
                reply = error
            else:
                # The script has changed nothing, and the operation asks again.
                if isinstance(reply, Later):
                    self._unconfirmed = None
                return self._resume(self._steps.send, reply)
        return self._resume(self._steps.throw, reply)

    def _resume(
        self, resume: Callable[[Any], _Request], value: Any
    ) -> Sequence[Command[Any]] | None:
        """Send a value into the generator, or throw an error; return the next commands."""
        try:
            self._request = request = resume(value)
        except StopIteration as end:
            if self._unconfirmed:
                raise self._unconfirmed.error(self._action, end.value) from None
            self.result = end.value
            return None
        commands = (request,) if isinstance(request, Command) else request
        if self._unconfirmed:  # one command is not confirmed, so the others need not wait
            return [command._replace(needs_confirmation=False) for command in commands]
        return commands

    def _receive(self, command: Command[Any], reply: Any) -> Any:
        """Return the reply of a command; if it is not confirmed, remember that."""
        if isinstance(reply, Unconfirmed):
            self._unconfirmed = reply
            self._action = command.script.name.removesuffix("_plain")
            return reply.reply
        return reply


def together(operations: Sequence[Steps[Any]]) -> Together:
    """Run operations in step: the next commands of all of them travel in one round trip.

    The generator yields commands, and is sent their raw replies or errors.

    Returns:
        For each operation its result, or the exception that it ended with.
    """
    results: list[Any] = [None] * len(operations)
    under_way: list[tuple[int, Operation[Any], int]] = []
    commands: list[Command[Any]] = []

    def advance(index: int, operation: Operation[Any], replies: Sequence[Any] | None) -> None:
        try:
            following = operation.begin() if replies is None else operation.go_on(replies)
        except Exception as error:
            results[index] = error
            return
        if following is None:
            results[index] = operation.result
        else:
            under_way.append((index, operation, len(following)))
            commands.extend(following)

    for index, steps in enumerate(operations):
        # The first step checks the arguments, before any command is sent.
        advance(index, Operation(steps), None)
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
    """The base of the operations on a queue: finds scripts, and makes their keys."""

    def __init__(self, queue_name: str, clock: Callable[[], int] | None = None) -> None:
        self.queue_name = queue_name
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

    def _ask(
        self, name: str, args: Sequence[str | bytes | int | float], parse: Callable[[Any], T]
    ) -> Steps[T]:
        """Run an operation of one command."""
        result: T = yield self._command(name, args, parse)
        return result

    def _now(self) -> int | str:
        return self._clock() if self._clock else ""
