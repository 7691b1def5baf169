"""A file of request bodies, one JSON object a line: checked whole before anything is sent.

A line is the body of a request, or a batch form of `FORMS`, with an optional `priority` and `cost`.
A request is known by the number of its line and a hash of the line. No request is sent here.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from pydantic_core import from_json

from dpq.batch.lines import BYTE_ORDER_MARK, BatchError, slices
from dpq.batch.tokens import estimate
from dpq.limits.cost import write_cost
from dpq.model.errors import DPQError
from dpq.model.priority import encode_priority

FORMS = {"body": "custom_id", "params": "custom_id", "request": "key", "modelInput": "recordId"}
"""The names of a request's body, and of its id, in the batch forms of OpenAI (and Mistral),
Anthropic, Google and Amazon."""

BESIDE = {"method", "url", "priority", "cost"}
"""The names that may stand beside a body and an id."""

IDS = {*FORMS.values()}
MAX_ID_CHARACTERS = 512
FAULTS_SHOWN = 5


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
    """A file of requests, which is checked when this is made.

    Attributes:
        path: The file.
        digest: The SHA-256 of its content, in hex.
        hashes: The hash of each line; 0 for a blank one. 8 bytes a line are all that is kept.
        total: The number of its requests.
        largest: The largest cost of a request, by unit.

    Raises:
        BatchError: Lines are no requests; it names the first ones.
    """

    def __init__(self, path: Path, url: str, cost_from: str | None = None) -> None:
        self.path, self._url = path, url
        self._cost_from = cost_from.split(".") if cost_from else None
        self.hashes, self.total, self.largest = array("Q"), 0, dict[str, int]()
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
        self.digest = digest.hexdigest()

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
