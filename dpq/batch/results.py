"""The file of results: a line for each answer, on the disk before its task is acked.

`dpq run` calls it. Several processes of one machine may append to one file: each write holds the
file's lock, and a line that a crash has cut is closed before the next one. A result is known by the
number of its request's line and the hash of that line. Memory: 8 bytes for each line of the input.
"""

import asyncio
import fcntl
import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json, to_json

from dpq.batch.reader import Batch, BatchError

MAX_RESULT_BYTES = 64 * 1024 * 1024  # of a line at most; a longer one is taken for a broken one


class Found(NamedTuple):
    """A result in a file: the place of its line, and the line of the input that it answers."""

    offset: int
    size: int
    line: int


def result_line(request: dict[str, Any], response: dict[str, Any]) -> bytes:
    """Make the line of a result."""
    named = {"custom_id": request["id"]} if request["id"] is not None else {}
    result = {"line": request["line"], "request": request["request"], **named, "response": response}
    return to_json(result, inf_nan_mode="constants") + b"\n"


class Results:
    """The results of a batch, in one file; what files of other machines have is not sent again."""

    def __init__(self, path: Path, also: Sequence[Path], batch: Batch) -> None:
        self.path, self._also, self._batch = path, also, batch
        self._known = bytearray(len(batch.hashes))
        self._mode = batch.path.stat().st_mode & 0o666 | 0o600
        self._read_to = 0
        self._inode = 0
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    def read(self) -> None:
        """Learn which requests have results; what was known before is forgotten."""
        self._known, self._read_to = bytearray(len(self._known)), 0
        for path in self._also:
            with path.open("rb") as stream:
                for each in self._results(stream, strict=False):
                    self._known[each.line - 1] = 1
        self.read_on()

    def read_on(self) -> None:
        """Learn what was saved since the last look, by other processes too."""
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            inode = os.fstat(stream.fileno()).st_ino
            if inode != self._inode:  # the file was rewritten, in another order
                self._inode, self._read_to = inode, 0
            stream.seek(self._read_to)
            for each in self._results(stream, strict=True):
                self._known[each.line - 1] = 1
                self._read_to = each.offset + each.size

    @property
    def saved(self) -> int:
        """The number of requests that have a result."""
        return self._known.count(1)

    def has(self, line: int) -> bool:
        """Return True if the request of this line has a result."""
        return line <= len(self._known) and bool(self._known[line - 1])

    def _results(self, stream: BinaryIO, *, strict: bool) -> Iterator[Found]:
        """Find the results of this batch in a file, and skip lines that a crash has broken."""
        hashes = self._batch.hashes
        offset = stream.tell()
        while raw := stream.readline(MAX_RESULT_BYTES):
            here, offset = offset, offset + len(raw)
            if not raw.endswith(b"\n"):
                continue
            try:
                result = from_json(raw)
                line, known = result["line"], result["request"]
            except (ValueError, TypeError, KeyError):  # cut by a crash, or blank
                continue
            if (
                isinstance(line, int)
                and 0 < line <= len(hashes)
                and known == hash_text(hashes[line - 1])
            ):
                yield Found(here, len(raw), line)
            elif strict:
                raise BatchError(
                    f"{self.path} has a result of something else than line {line} of "
                    f"{self._batch.path}. Name another file: --save NEW --also {self.path} "
                    "takes over what fits"
                )

    # Writing

    async def save(self, line: int, result: bytes) -> None:
        """Append a result; return when it is on the disk."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((result, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(done)
        self._known[line - 1] = 1

    async def _write(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                await asyncio.to_thread(self._append, b"".join(result for result, _ in some))
            except Exception as fault:  # each waiting handler is to see it
                error = fault
            for _, done in some:
                if not done.done():
                    done.set_exception(error) if error else done.set_result(None)

    def _append(self, data: bytes) -> None:
        with self._locked() as file:
            end = os.lseek(file, 0, os.SEEK_END)
            if end and os.pread(file, 1, end - 1) != b"\n":
                data = b"\n" + data  # a crash has cut the last line
            try:
                while data:
                    data = data[os.write(file, data) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, end)
                raise
            if not end:  # the file may be new: its name is to last as well
                _sync_directory(self.path.resolve().parent)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending, locked; another process may replace it meanwhile."""
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    same = os.stat(self.path).st_ino == os.fstat(file).st_ino
                except FileNotFoundError:
                    same = False
                if same:
                    yield file
                    return
            finally:
                os.close(file)  # closing the file unlocks it

    # The end

    def tidy(self, *, ordered: bool) -> int:
        """Remove results that stand there twice, and broken lines; return how many went."""
        if not (self.path.exists() or ordered):
            return 0
        with self._locked() as file, ExitStack() as opened:
            own = opened.enter_context(os.fdopen(os.dup(file), "rb"))
            also = [opened.enter_context(path.open("rb")) for path in self._also if ordered]
            return self._rewrite([own, *also], ordered)

    def _rewrite(self, sources: Sequence[BinaryIO], ordered: bool) -> int:
        places = array("q", [-1]) * len(self._batch.hashes)
        owners = bytearray(len(places))
        found = kept = last = size = 0
        in_order = True
        sources[0].seek(0)
        for number, source in enumerate(sources):
            for each in self._results(source, strict=False):
                found += number == 0
                size += each.size * (number == 0)
                if places[each.line - 1] < 0:
                    places[each.line - 1], owners[each.line - 1] = each.offset, number
                    kept += number == 0
                    in_order = in_order and number == 0 and each.line > last
                    last = each.line
        whole = size == os.fstat(sources[0].fileno()).st_size  # no line is anything else
        if kept == found and whole and (in_order or not ordered):
            return 0
        path = self.path.resolve()  # a symbolic link is kept: its target is written
        fresh = path.with_name(f"{path.name}.tmp")
        lines = range(len(places))
        with _created(fresh, os.fstat(sources[0].fileno())) as out:
            for line in lines if ordered else sorted(lines, key=places.__getitem__):
                if places[line] >= 0:
                    source = sources[owners[line]]
                    source.seek(places[line])
                    out.write(source.readline(MAX_RESULT_BYTES))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
        _sync_directory(path.parent)
        return found - kept


def hash_text(known: int) -> str:
    """Write a hash as it stands in a result."""
    return f"{known:016x}"


def _created(path: Path, like: os.stat_result) -> BinaryIO:
    """Create a file with the mode of another one, and its owner where that is allowed."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with suppress(PermissionError):
        os.fchown(file, like.st_uid, like.st_gid)
    os.fchmod(file, stat.S_IMODE(like.st_mode))  # after the owner: a new owner may take bits away
    return os.fdopen(file, "wb")


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
