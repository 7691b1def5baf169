"""Packing of commands: the bytes that a server reads. No I/O.

`transport` calls it. A command begins with the number of its words; each word has its length before
it. Each of these ends with a line break:

    WAIT 1 2100    is sent as    *3 $4 WAIT $1 1 $4 2100
"""

from collections.abc import Iterable, Sequence
from typing import Any

try:
    from hiredis import pack_command
except ImportError:  # the extra `fast` installs it
    pack_command = None  # type: ignore[assignment]

from dpq.protocol.command import Command, PlainCommand
from dpq.protocol.scripts import Script

MOST_HEADS = 10_000
"""Packed beginnings of commands that are kept, about 1 KB each: enough for 1024 partitions."""

MANY_WORDS = 8
"""From so many words on hiredis packs faster, though it adds their number: 300 words in 60 % of the
time."""


class Packer:
    """Packs commands as the server reads them, and keeps the part that is the same in each call."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Script, tuple[str, ...]], tuple[int, bytes]] = {}

    def pack_all(self, commands: Sequence[Command[Any]]) -> bytes:
        """Pack commands to be sent together."""
        if len(commands) == 1:
            return self._pack(commands[0])
        return b"".join(map(self._pack, commands))

    def _pack(self, command: Command[Any]) -> bytes:
        head = self._heads.get((command.script, command.keys))
        if head is None:
            texts = ("EVALSHA", command.script.sha, str(len(command.keys)), *command.keys)
            head = (len(texts), bulk_strings(texts))
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[command.script, command.keys] = head
        size, packed = head
        return b"*%d\r\n%b%b" % (size + len(command.args), packed, bulk_strings(command.args))


def script_call(command: Command[Any], *, as_text: bool) -> PlainCommand:
    """Make the plain command that calls a script by its hash, or sends its text (EVAL)."""
    name, called = ("EVAL", command.script.text) if as_text else ("EVALSHA", command.script.sha)
    return (name, called, len(command.keys), *command.keys, *command.args)


def pack_plain(commands: Iterable[PlainCommand]) -> bytes:
    """Pack plain commands to be sent together."""
    return b"".join(b"*%d\r\n%b" % (len(each), bulk_strings(each)) for each in commands)


def pack_texts(commands: Iterable[Command[Any]]) -> bytes:
    """Pack commands with the texts of their scripts, for a server that does not know them."""
    return pack_plain(script_call(command, as_text=True) for command in commands)


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
