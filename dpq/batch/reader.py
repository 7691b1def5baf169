"""A file of request bodies, one JSON object a line: checked whole before anything is sent.

A line is the body of a request, or a batch form of `FORMS`, with an optional `priority` and `cost`.
A request is known by the number of its line and a hash of the line. No request is sent here. Lines
come in `slices`, so that the memory is bounded; `dpq push` reads its lines in the same way.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urljoin, urlsplit

from pydantic_core import from_json

from dpq.batch.tokens import estimate
from dpq.limits.cost import write_cost
from dpq.model.errors import DPQError
from dpq.model.priority import encode_priority

CHUNK_BYTES = 1024 * 1024  # of one read; a pipe gives the bytes it has: no task waits for the next
MAX_LINE_BYTES = 8 * 1024 * 1024  # a payload of 1 MiB, the queue's bound, fits with all its escapes
SLICE_LINES = 200  # push_many sends them in one round trip, so all of them are added, or none
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors write it before UTF-8

FORMS = {"body": "custom_id", "params": "custom_id", "request": "key", "modelInput": "recordId"}
"""The names of a request's body, and of its id, in the batch forms of OpenAI (and Mistral),
Anthropic, Google and Amazon."""

BESIDE = {"method", "url", "priority", "cost"}  # may stand beside a body and an id
IDS = {*FORMS.values()}
MAX_ID_CHARACTERS = 512
FAULTS_SHOWN = 5

Numbered = tuple[int, bytes]  # a line and its number, from 1


class BatchError(DPQError):
    """The file of requests, its results or the queue do not fit. Nothing was sent."""


def slices(stream: BinaryIO) -> Iterator[list[Numbered]]:
    """Cut a stream into slices of lines that are not blank."""
    read1: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rest, number = b"", 0
    while chunk := read1(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        lines = list(enumerate(whole, number + 1))
        number += len(whole)
        yield from _filled(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise BatchError(f"line {number + 1} is too long: at most {MAX_LINE_BYTES} bytes")
    yield from _filled([(number + 1, rest)])


def _filled(lines: list[Numbered]) -> Iterator[list[Numbered]]:
    filled = [line for line in lines if line[1].strip()]
    for start in range(0, len(filled), SLICE_LINES):
        yield filled[start : start + SLICE_LINES]


class Request(NamedTuple):
    """One line."""

    line: int  # its number, from 1
    known: int  # the hash of its bytes
    custom_id: str | None
    path: str | None  # the address to send it to, as the line names it; None: the one of the run
    body: dict[str, Any]
    priority: float
    cost: Any  # the units that the line names, or its tokens as estimated


class Batch:
    """A file of requests, which is checked when this is made: a BatchError names the first faults.

    Of each line only the hash is kept, 8 bytes; that of a blank line is 0.
    """

    def __init__(self, path: Path, url: str, cost_from: str | None = None) -> None:
        self.path, self._url = path, url
        self._cost_from = cost_from.split(".") if cost_from else None
        self.hashes, self.total = array("Q"), 0
        self.largest: dict[str, int] = {}  # the largest cost of a request, by unit
        digest, faults, ids = hashlib.sha256(), [], dict[int, int]()
        for number, line in self._lines():
            digest.update(b"%d:" % number + line + b"\n")
            self.hashes.extend([0] * (number - len(self.hashes)))
            try:
                request = self._request(number, line)
                self.hashes[-1] = request.known
                name, cost = request.custom_id, request.cost
                first = ids.setdefault(hash(name), number) if name else number
                if first != number:
                    raise ValueError(f"its id {name!r} is that of line {first}")  # noqa: TRY301
                for unit, units in cost.items() if isinstance(cost, Mapping) else ():
                    self.largest[unit] = max(self.largest.get(unit, 0), units)
                self.total += 1
            except (ValueError, DPQError) as fault:
                faults.append(f"line {number}: {fault}")
                if len(faults) > FAULTS_SHOWN:
                    break
        if faults:
            more = "; and more" if len(faults) > FAULTS_SHOWN else ""
            told = "; ".join(faults[:FAULTS_SHOWN])
            raise BatchError(f"{self.path}: {told}{more}. Nothing of the file was queued or sent")
        if not self.total:
            raise BatchError(f"{self.path} has no requests")
        self.digest = digest.hexdigest()  # the SHA-256 of its content

    def requests(self) -> Iterator[Request]:
        """Yield the requests."""
        for number, line in self._lines():
            yield self._request(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self.path.open("rb") as stream:
            for some in slices(stream):
                for number, line in some:
                    yield number, line.removeprefix(BYTE_ORDER_MARK).strip()

    def _request(self, number: int, line: bytes) -> Request:
        try:
            value = from_json(line)
        except ValueError as error:
            raise ValueError(f"it must be one JSON object: {error}") from None
        if not isinstance(value, dict):
            raise ValueError("it must be one JSON object")  # noqa: TRY004 - one kind of fault
        form, custom_id, body = _parts(value)
        if custom_id is not None and not (
            isinstance(custom_id, str) and 0 < len(custom_id) <= MAX_ID_CHARACTERS
        ):
            raise ValueError(f"custom_id must be 1 to {MAX_ID_CHARACTERS} characters")
        method = form.get("method", "POST")
        if not isinstance(method, str) or method.upper() != "POST":
            raise ValueError(f"method is {method!r}: it must be POST")
        path = form.get("url")
        if path is not None:
            target(self._url, path)
        encode_priority(form.get("priority", 0))
        if body.get("stream"):
            raise ValueError("stream is set: an answer is saved as a whole, so leave it out")
        cost = form["cost"] if "cost" in form else {"tokens": self._tokens(value, body)}
        write_cost(cost)
        return Request(number, hash_of(line), custom_id, path, body, form.get("priority", 0), cost)

    def _tokens(self, line: Any, body: dict[str, Any]) -> int:
        if self._cost_from is None:
            return estimate(body, self._url)
        for name in self._cost_from:
            line = line.get(name) if isinstance(line, Mapping) else None
        if isinstance(line, bool) or not isinstance(line, int):
            raise ValueError(  # noqa: TRY004 - one kind of fault
                f"{'.'.join(self._cost_from)} must be a whole number of tokens"
            )
        return line


def hash_of(line: bytes) -> int:
    """Hash the bytes of a line to 64 bits, never 0."""
    return int.from_bytes(hashlib.sha256(line).digest()[:8], "big") | 1


def target(url: str, path: Any) -> str:
    """Return the address of a line: on the host of the run, which alone may see its headers.

    A path keeps what stands before it in the address of the run, as `/api` in `/api/v1/chat`.
    """
    full: str = urljoin(url, path) if isinstance(path, str) else ""
    here = urlsplit(url)
    if urlsplit(full)[:2] != here[:2]:
        raise ValueError(f"url is {path!r}: it must be a path, or on the host of --url")
    line, given = urlsplit(str(path)), here.path.strip("/")
    wanted = line.path.strip("/")
    if line.netloc or not wanted or not given:
        return full
    before = f"/{given}/".removesuffix(f"/{wanted}/")
    if before == f"/{given}/":
        before, found, _ = before.rpartition(f"/{wanted.partition('/')[0]}/")
        if not found:
            raise ValueError(
                f"url is {path!r}, and --url ends in {here.path!r}: write {full!r} if you mean that"
            )
    path = f"{before}/{line.path.lstrip('/')}"
    return here._replace(path=path, query=line.query or here.query).geturl()


def _parts(value: dict[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Find the names beside the body of a line, the id, and the body."""
    for body, name in FORMS.items():
        known = body == "body" or name in value or len(value) == 1
        if known and isinstance(value.get(body), dict):
            if unknown := sorted(set(value) - {body, name} - BESIDE):
                allowed = ", ".join(sorted({body, name} | BESIDE))
                raise ValueError(f"{unknown[0]!r} is not one of {allowed}")
            return value, value.get(name), value[body]
    if value.keys() & {"response", "result"} and value.keys() & {"line", "request", *IDS}:
        raise ValueError("it is an answer, not a request")
    if value.keys() & {"custom_id", "recordId"} or value.keys() >= {"url", "body"}:
        raise ValueError("it has no body that is a JSON object, as in {custom_id, url, body}")
    return {}, None, value
