"""The dashboard of one process, and one call to it, which every page and API route is given."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from pydantic_core import from_json, to_json
from redis.exceptions import ResponseError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dpq import DPQ, ConfigurationError, DPQError
from dpq.explain.operations import Operations
from dpq.explain.verdict import no_such_queue
from dpq.model.history import Granted
from dpq.model.validation import one_line
from dpq.queue.inside import operations_of, session_of
from dpq.script.command import Steps
from dpq.types import Event
from dpq.views.sampler import Directory, Snapshot, Watch, ask_all, one_each
from dpq.views.shared import Shared
from dpq.views.words import Places
from dpq.web.access import Access, Guard
from dpq.web.actions import Jobs
from dpq.web.render import environment, from_segment, json_safe, segment

T = TypeVar("T")

EVERY_MS = 2000
"""ms between two looks of a tab at its queue."""

STORY_SECONDS = 30.0
"""Seconds that charts, and what limits had granted, are shared."""

NOW = b"@@@@@@@@@@NOW"
"""The place of the server's clock in a page: 13 digits of ms."""

BODY_BYTES = 1024 * 1024
"""Bytes of the largest form or JSON that is read."""

LOGIN_BYTES = 4096
"""Bytes of the largest form of a login: the form is read before the visitor is admitted."""

FIELDS = 5000
"""Fields of a form at most: a page of 50 tasks sends under a hundred, a program up to 1000 ids."""

NUMBER_CHARACTERS = 40
"""Characters of the longest number that is read: any float, and any integer of 64 bits."""


class Site:
    """The dashboard of one process: all that its requests share."""

    def __init__(self, directory: Directory, access: Access, badge: str, server: str) -> None:
        self.directory = directory
        self.guard = Guard(access)
        self.server = server
        self.shared = Shared()
        self.ahead_ms = 0.0
        self.answered_ms = time.time() * 1000
        self.jobs = Jobs()
        self.places = Places()
        self.exporter: Any = None  # the exporter of /metrics, made at the first scrape
        self.document: dict[str, Any] = {}
        self.templates = environment(access=access, badge=badge, server=server, every=EVERY_MS)
        self._watch_of = one_each(directory, lambda queue: Watch(queue, remembers=access.write))

    def watch(self, name: str) -> Watch:
        """Return the watch of a queue."""
        watch = self._watch_of(name)
        if watch is None:
            raise HTTPException(404, no_such_queue(name, self.directory.names()))
        return watch

    def now_ms(self) -> int:
        """Return the clock of the queues' server, by its last answer."""
        return round(time.time() * 1000 + self.ahead_ms)

    def snapshot(self, name: str) -> Snapshot:
        """Return the snapshot of a queue, at most a second old."""
        self.watch(name)
        found = self.snapshots([name])[name]
        if isinstance(found, Exception):
            raise found
        return found

    def snapshots(self, names: Iterable[str]) -> dict[str, Snapshot | Exception]:
        """Return the snapshot of each queue, or the error of one that cannot be read."""
        watches = {name: watch for name in names if (watch := self._watch_of(name))}

        def read(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any]:
            few = [watches[name] for name, _ in keys]
            return dict(zip(keys, ask_all(few, [watch.steps for watch in few]), strict=True))

        keys = [(name, "snapshot") for name in watches]
        answers = {name: each for (name, _), each in self.shared.get_all(keys, read).items()}
        for name, found in answers.items():
            if isinstance(found, Snapshot):
                self.ahead_ms, self.answered_ms = watches[name].ahead_ms, time.time() * 1000
            elif not isinstance(found, DPQError | ResponseError):
                raise found
        return answers

    def ask(
        self, names: Sequence[str], what: Callable[[Operations[Any]], Steps[Any]]
    ) -> dict[str, Any]:
        """Run one read-only operation on queues: one round trip for those of the same client."""
        watches = {name: watch for name in names if (watch := self._watch_of(name))}
        asked = [partial(what, operations_of(watch.queue)) for watch in watches.values()]
        return dict(zip(watches, ask_all([*watches.values()], asked), strict=True))


class Call:
    """One request, with the site that it goes to."""

    def __init__(self, site: Site, request: Request) -> None:
        self.site, self.request = site, request
        self.root: str = request.scope.get("root_path", "")
        self.path = str(request.scope["path"]).removeprefix(self.root) or "/"  # below the mount
        self.for_programs = self.path.startswith("/api/") or self.path == "/metrics"
        self.changes = request.method not in ("GET", "HEAD")
        self.name = self.part("queue")  # of the queue in the path; "" if there is none
        self.query: Mapping[str, str] = request.query_params
        self.payloads = site.guard.access.payloads and self.query.get("payload") != "0"
        self.json: dict[str, Any] = {}
        self.form: dict[str, list[str]] = {}

    def read(self, body: bytes) -> None:
        """Read the form or the JSON of the body."""
        if not body:
            return
        if self.request.headers.get("content-type", "").startswith("application/json"):
            try:
                read = from_json(body)
            # Also if it is too deep, has too long a number, or half a character.
            except ValueError as error:
                raise HTTPException(400, f"the body is no JSON: {error}") from None
            if not isinstance(read, dict):
                raise HTTPException(400, "the body must be a JSON object")
            self.json = read
        elif self.for_programs:
            raise HTTPException(415, "the body must be JSON: send Content-Type: application/json")
        else:
            text = body.decode("utf-8", "replace")
            try:
                self.form = parse_qs(text, keep_blank_values=True, max_num_fields=FIELDS)
            except ValueError:
                raise HTTPException(400, f"the form has more than {FIELDS} fields") from None

    def url(self, *parts: str, **query: Any) -> str:
        """Make a path of this dashboard, whatever it is mounted on."""
        path = f"{self.root}/{'/'.join(map(segment, parts))}"
        named = {name: value for name, value in query.items() if value not in (None, "", False)}
        return f"{path}?{urlencode(named)}" if named else path

    @property
    def watch(self) -> Watch:
        """Return the watch of the queue in the path."""
        return self.site.watch(self.name)

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot of the queue in the path, at most a second old."""
        return self.site.snapshot(self.name)

    @property
    def queue(self) -> DPQ[Any]:
        """Return the queue in the path; for a page that only shows, an object that only reads."""
        return self.queue_of(self.name)

    def queue_of(self, name: str) -> DPQ[Any]:
        """Return the queue of a name, as `queue`."""
        watch = self.site.watch(name)
        return (self.changes and self.site.directory.get(name)) or watch.queue

    def part(self, name: str) -> str:
        """Return a name in the path; "" if there is none."""
        return from_segment(self.request.path_params.get(name, ""))

    def field(self, name: str) -> str:
        """Return one field of the form, without blanks around it."""
        return self.form.get(name, [""])[0].strip()

    def said(self, name: str) -> Any:
        """Return what a form or the JSON of a program says; None for nothing or an empty field."""
        return self.json.get(name) if self.for_programs else self.field(name) or None

    def number(self, name: str) -> int | float:
        """Return a number of the form or the JSON."""
        return read_number(self.said(name), name)

    def maybe(self, name: str) -> float | None:
        """Return a number of the form or the JSON; None if there is none."""
        return None if self.said(name) is None else float(self.number(name))

    def run(self, verb: str, *args: Any, **named: Any) -> Any:
        """Run an operation on the queue of the path; see `dpq.explain.operations`."""
        queue = self.queue
        return session_of(queue).run(getattr(operations_of(queue), verb), *args, **named)

    def once(self, key: tuple[Any, ...], read: Callable[[], T], seconds: float | None = None) -> T:
        """Return a reading of the queue that all tabs share; by default it is a second old at
        most."""
        return self.site.shared.get((self.name, *key), read, seconds)

    def shared(self, verb: str, *args: Any) -> Any:
        """Run an operation that only reads, at most once a second for all tabs."""
        return self.once((verb, *map(repr, args)), partial(self.run, verb, *args))

    def events(self, *kinds: str) -> list[Event]:
        """Return the newest events of the queue, of some kinds or of all, the oldest first."""
        return self.once(("events", kinds), partial(self.watch.events, *kinds))

    def granted(self) -> list[Granted]:
        """Return what limits had granted at each minute of the last hour, at most 30 s old."""
        return self.once(("granted",), partial(self.run, "granted"), STORY_SECONDS)

    def allow(self, action: str, about: str = "", queue: str | None = None) -> str:
        """Check an action on the queue, or on that of the path; note it in the audit log."""
        self.site.guard.allow(self.request, action, self.name if queue is None else queue, about)
        self.site.shared.forget()
        user, address = self.site.guard.who(self.request)
        return one_line(f"{(address if user == '-' else user)[:100]} (dashboard)")

    def may(self, action: str, queue: str | None = None) -> bool:
        """Return True if an action is allowed: pages show only allowed actions."""
        return self.site.guard.may(self.request, action, self.name if queue is None else queue)

    def render(self, template: str, status: int = 200, **shown: Any) -> Response:
        """Make a page."""
        shown |= {"here": self.path, "queue": self.name or None, "payloads": self.payloads}
        html = self.site.templates.get_template(template).render(
            call=self, url=self.url, may=self.may, **shown
        )
        answer = self.tagged(html.encode(), "text/html; charset=utf-8", status)
        now = str(self.site.now_ms())
        answer.headers["x-dpq-now"] = now
        # Set after the ETag, which the clock must not change.
        answer.body = bytes(answer.body).replace(NOW, now.encode().ljust(len(NOW)), 1)
        return answer

    def answer(self, value: Any, status: int = 200) -> Response:
        """Make an answer of the API."""
        text = to_json(json_safe(value), inf_nan_mode="strings", fallback=str)
        return self.tagged(text, "application/json", status)

    def tagged(self, body: bytes, kind: str, status: int = 200) -> Response:
        """Make an answer with an ETag, or 304 if the browser has it already."""
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers = {"etag": tag, "vary": "cookie"}
        if status == 200 and self.request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, status, headers, kind)

    def go(self, *parts: str, **query: Any) -> Response:
        """Send the browser to another page, after an action."""
        return RedirectResponse(self.url(*parts, **query), 303)

    def done(self, value: Any, *parts: str, **query: Any) -> Response:
        """Answer an action: a program gets the value, and a browser goes to another page."""
        return self.answer(value) if self.for_programs else self.go(*parts, **query)


View = Callable[[Call], Response]
"""The function of a page or of an API route."""


def read_number(text: Any, name: str) -> int | float:
    """Read a number of a form, a query or JSON, an int exactly."""
    if text in (None, ""):
        raise ConfigurationError(f"{name} is missing: give a number")
    if len(str(text)) <= NUMBER_CHARACTERS:
        for kind in (int, float):
            with suppress(ValueError):
                return kind(str(text))
    raise ConfigurationError(f"{name} is {text!r:.60}: it must be a number")


def read_whole(text: Any, name: str) -> int:
    """Read a whole number of a form, a query or JSON."""
    number = read_number(text, name)
    if not float(number).is_integer():
        raise ConfigurationError(f"{name} is {text!r}: it must be a whole number")
    return int(number)
