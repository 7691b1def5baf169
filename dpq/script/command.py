"""One script call as data (`Command`), the generators that yield calls (`Operation`), and the bytes
that a server reads. No I/O.

    operation = Operation(steps)                      the arguments are checked
    while operation.commands is not None:
        operation.go_on(send(operation.commands))     the raw replies; then the next commands
    operation.result
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

try:
    from hiredis import pack_command
except ImportError:  # the extra `fast` installs it
    pack_command = None  # type: ignore[assignment]

from dpq.model.errors import ConfigurationError, DPQError
from dpq.model.schedule import Later
from dpq.model.task import Task, TaskName
from dpq.model.validation import MAX_NAME_BYTES, label
from dpq.script.assembly import Script, script
from dpq.script.durability import Unconfirmed
from dpq.script.keys import key_of
from dpq.script.refusals import Code, other_queue

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

MOST_HEADS = 10_000
"""Packed beginnings of commands that are kept, about 1 KB each."""

MANY_WORDS = 8
"""From that many words on hiredis packs faster, though it adds their number: 300 words in 60 % of
the time."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of a reader whose reply is damaged."""


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
            f"task_id is {id_!r:.200} and key is {key!r:.200}: give one of them; task_id must be "
            "the string that push returned"
        )
    return TaskName(task_id(id_), "") if key is None else TaskName("", label("key", key))


def once(command: Command[T]) -> Steps[T]:
    """Make an operation of one command."""
    result: T = yield command
    return result


def all_of(operations: Iterable[Steps[T]]) -> Steps[list[T]]:
    """Run operations in step, as one operation."""
    steps = list(operations)
    if len(steps) == 1:
        return [(yield from steps[0])]
    results = yield from together(steps)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class Operation(Generic[T]):
    """A running operation: has the commands to send next, and takes their replies.

    Attributes:
        commands: The next commands; None once the operation has ended.
        result: The result, once it has ended.
    """

    __slots__ = ("_action", "_request", "_steps", "_unconfirmed", "commands", "result")

    commands: Sequence[Command[Any]] | None
    result: T

    def __init__(self, steps: Steps[T]) -> None:
        """Check the arguments, and make the first commands."""
        self._steps = steps
        self._unconfirmed: Unconfirmed | None = None
        self._action = ""  # the name of a script without a confirmation
        try:
            self._request = request = next(steps)
        except StopIteration as end:
            self.commands, self.result = None, end.value
        else:
            self.commands = (request,) if type(request) is Command else request  # type: ignore[assignment]

    def go_on(self, replies: Sequence[Any]) -> None:
        """Take the raw replies to the last commands, or their errors; make the next commands."""
        command, resume = self._request, self._steps.send
        value: Any
        if type(command) is Command:
            value = replies[0]
            if type(value) is Unconfirmed:
                value = self._note(command, value)
            if isinstance(value, Exception):
                resume = self._steps.throw
            else:
                try:
                    if type(value) is list and value and value[0] == Code.OTHER_FORMAT:
                        resume, value = self._steps.throw, other_queue(value)
                    else:
                        value = command.parse(value)
                except DPQError as error:
                    resume, value = self._steps.throw, error
                except UNREADABLE as error:
                    resume, value = self._steps.throw, unreadable(command, error)
        else:
            commands = self.commands or ()
            value = [self._note(*each) for each in zip(commands, replies, strict=True)]
        unconfirmed = self._unconfirmed
        if unconfirmed and isinstance(value, Later):
            # The script has changed nothing, and the operation asks again.
            self._unconfirmed = unconfirmed = None
        try:
            self._request = request = resume(value)
        except StopIteration as end:
            if unconfirmed:
                raise unconfirmed.error(self._action, end.value) from None
            self.commands, self.result = None, end.value
            return
        following: Any = (request,) if type(request) is Command else request
        if unconfirmed:  # one command is not confirmed, so the others need not wait
            following = [each._replace(needs_confirmation=False) for each in following]
        self.commands = following

    def _note(self, command: Command[Any], reply: Any) -> Any:
        """Return the reply of a command; if it is not confirmed, remember that."""
        if type(reply) is Unconfirmed:
            self._unconfirmed = reply
            self._action = command.script.name.removesuffix("_plain")
            return reply.reply
        return reply


def unreadable(command: Command[Any], error: Exception) -> DPQError:
    """Make the error for a reply that its reader cannot read."""
    fault = DPQError(
        f"the reply of {command.script.name} for {command.keys[0]} cannot be read: {error!r}. "
        "If another program has written into the queue's keys, check() names the damage; if it "
        "names none, this is a fault of DPQ"
    )
    fault.__cause__ = error
    return fault


def together(operations: Sequence[Steps[Any]]) -> Together:
    """Run operations in step: the next commands of all of them travel in one round trip."""
    results: list[Any] = [None] * len(operations)
    under_way: list[tuple[int, Operation[Any]]] = []
    for index, steps in enumerate(operations):
        try:  # all arguments are checked before any command is sent
            under_way.append((index, Operation(steps)))
        except Exception as error:
            results[index] = error
    replies: list[Any] | None = None
    while True:
        commands: list[Command[Any]] = []
        first, answered, under_way = 0, under_way, []
        for index, operation in answered:
            try:
                if replies is not None and operation.commands is not None:
                    count = len(operation.commands)
                    first += count
                    operation.go_on(replies[first - count : first])
            except Exception as error:
                results[index] = error
                continue
            if operation.commands is None:
                results[index] = operation.result
            else:
                under_way.append((index, operation))
                commands += operation.commands
        if not under_way:
            return results
        replies = yield commands


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

    def _pages(
        self, name: str, args: Callable[[Any], list[Any]], parse: Callable[[Any], Any]
    ) -> Steps[list[list[Any]]]:
        """Call a script until it has no more; each reply begins with the cursor of the next."""
        pages: list[list[Any]] = []
        cursor: Any = "0"
        while not pages or cursor not in ("0", b"0"):
            cursor, *page = yield self._command(name, args(cursor), parse)
            pages.append(page)
        return pages

    def _now(self) -> int | str:
        return self._clock() if self._clock else ""


class Packer:
    """Packs commands as a server reads them, and keeps the part that is the same in each call.

    A command begins with the number of its words, and each word with its length. A line break ends
    each of these: `WAIT 1 2100` is `*3 $4 WAIT $1 1 $4 2100`.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[Script, tuple[str, ...]], tuple[int, bytes]] = {}

    def pack(self, commands: Sequence[Command[Any]]) -> bytes:
        """Pack commands to be sent together."""
        parts = []
        for called, keys, args, _, _ in commands:
            head = self._heads.get((called, keys))
            if head is None:
                texts = ("EVALSHA", called.sha, str(len(keys)), *keys)
                head = (len(texts), bulk_strings(texts))
                if len(self._heads) >= MOST_HEADS:
                    self._heads.clear()
                self._heads[called, keys] = head
            parts.append(b"*%d\r\n%b%b" % (head[0] + len(args), head[1], bulk_strings(args)))
        return parts[0] if len(parts) == 1 else b"".join(parts)


def script_call(command: Command[Any], *, as_text: bool) -> PlainCommand:
    """Make the plain command that calls a script by its hash, or sends its text (EVAL)."""
    name, called = ("EVAL", command.script.text) if as_text else ("EVALSHA", command.script.sha)
    return (name, called, len(command.keys), *command.keys, *command.args)


def pack_plain(commands: Iterable[PlainCommand]) -> bytes:
    """Pack plain commands to be sent together."""
    return b"".join(b"*%d\r\n%b" % (len(each), bulk_strings(each)) for each in commands)


def bulk_strings(values: PlainCommand) -> bytes:
    """Pack the words of a command, without their number."""
    if pack_command is not None and len(values) >= MANY_WORDS:
        packed: bytes = pack_command(tuple(values))  # type: ignore[arg-type]
        return packed[packed.index(b"\n") + 1 :]
    parts = []
    for value in values:
        if type(value) is bytes:
            text = value
        elif type(value) is int:
            text = b"%d" % value
        else:
            text = str(value).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)
