"""The dashboard of one process, and one call to it, which every page and API route is given."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
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
from dpq.verbs.history import MAX_EVENTS
from dpq.views.charts import Span, Story, story
from dpq.views.sampler import Directory, Snapshot, Watch, ask_all, one_each
from dpq.views.shared import Shared
from dpq.views.words import Places
from dpq.web.access import Access, Guard
from dpq.web.actions import Jobs
from dpq.web.render import environment, from_segment, json_safe, segment

SAFE = ("GET", "HEAD")
"""The methods of requests that change nothing."""

EVERY_MS = 2000
"""ms between two looks of a tab at its queue."""

TASK_SECONDS = 5.0
"""Seconds that the events of a task are shared: a page that stays open reads them again."""

STORY_SECONDS = 30.0
"""Seconds that charts are shared."""

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
        self.badge, self.server = badge, server
        self.shared = Shared()
        self.ahead_ms = 0.0
        self.answered_ms = time.time() * 1000
        self.jobs = Jobs()
        self.places = Places()
        self.exporter: Any = None  # the exporter of /metrics, made at the first scrape
        self.document: dict[str, Any] = {}
        self.templates = environment()
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

    def events(self, name: str, *kinds: str) -> list[Event]:
        """Return the newest events of a queue, of some kinds or of all, the oldest first."""
        watch = self.watch(name)
        return self.shared.get(("events", name, kinds), partial(watch.events, *kinds))

    def task_events(self, name: str, id_: str) -> list[Event]:
        """Return the events of a task, the oldest first, some seconds old at most."""
        watch = self.watch(name)
        read = partial(watch.queue.admin.events, limit=MAX_EVENTS, task_id=id_)
        if not watch.may_see_events:
            return []
        return self.shared.get(("events of", name, id_), read, TASK_SECONDS)

    def story(self, name: str, chosen: Span) -> Story:
        """Return the history of a queue, at most 30 s old."""
        queue = self.watch(name).queue

        def read() -> Story:
            return story(queue.admin.history(chosen.ask), chosen, self.now_ms())

        return self.shared.get(("story", name, chosen), read, STORY_SECONDS)

    def granted(self, name: str) -> list[Granted]:
        """Return what limits had granted at each minute of the last hour, at most 30 s old."""
        queue = self.watch(name).queue
        read = partial(session_of(queue).run, operations_of(queue).granted)
        return self.shared.get(("granted", name), read, STORY_SECONDS)

    def snapshot(self, name: str) -> Snapshot:
        """Return the snapshot of a queue, at most a second old."""
        watch = self.watch(name)
        snapshot = self.shared.get(("queue", name), watch.read)
        self.ahead_ms, self.answered_ms = watch.ahead_ms, time.time() * 1000
        return snapshot

    def snapshots(self, names: Iterable[str]) -> list[tuple[str, Snapshot | None, str]]:
        """Return the snapshot of each queue, or None and the reason why it cannot be read."""
        watches = {name: watch for name in names if (watch := self._watch_of(name))}

        def read(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any]:
            few = [watches[name] for _, name in keys]
            return dict(zip(keys, ask_all(few, [watch.steps for watch in few]), strict=True))

        rows: list[tuple[str, Snapshot | None, str]] = []
        for (_, name), found in self.shared.get_all([("queue", n) for n in watches], read).items():
            if isinstance(found, Snapshot):
                rows.append((name, found, ""))
                self.ahead_ms, self.answered_ms = watches[name].ahead_ms, time.time() * 1000
            elif isinstance(found, DPQError | ResponseError):
                rows.append((name, None, str(found)))
            else:
                raise found
        return rows

    def ask(
        self, names: Sequence[str], what: Callable[[Operations[Any]], Steps[Any]]
    ) -> dict[str, Any]:
        """Run one read-only operation on queues: one round trip for those of the same client."""
        watches = {name: watch for name in names if (watch := self._watch_of(name))}
        asked = [partial(what, operations_of(watch.queue)) for watch in watches.values()]
        return dict(zip(watches, ask_all([*watches.values()], asked), strict=True))


class Call:
    """One request, with the site that it goes to."""

    def __init__(self, site: Site, request: Request, body: bytes) -> None:
        """Read the query, and the form or the JSON of the body."""
        self.site, self.request = site, request
        self.query: Mapping[str, str] = request.query_params
        self.json: dict[str, Any] = {}
        self.form: dict[str, list[str]] = {}
        if body and request.headers.get("content-type", "").startswith("application/json"):
            try:
                read = from_json(body)
            # Also if it is too deep, has too long a number, or half a character.
            except ValueError as error:
                raise HTTPException(400, f"the body is no JSON: {error}") from None
            if not isinstance(read, dict):
                raise HTTPException(400, "the body must be a JSON object")
            self.json = read
        elif body and self.path.startswith("/api/"):
            raise HTTPException(415, "the body must be JSON: send Content-Type: application/json")
        elif body:
            text = body.decode("utf-8", "replace")
            try:
                self.form = parse_qs(text, keep_blank_values=True, max_num_fields=FIELDS)
            except ValueError:
                raise HTTPException(400, f"the form has more than {FIELDS} fields") from None

    @property
    def for_programs(self) -> bool:
        """Return True for a call of the JSON API, or of Prometheus."""
        return is_for_programs(self.path)

    @property
    def path(self) -> str:
        """Return the path below the mount."""
        full: str = self.request.scope["path"]
        return full.removeprefix(self.request.scope.get("root_path", "")) or "/"

    def url(self, *parts: str, **query: Any) -> str:
        """Make a path of this dashboard, whatever it is mounted on."""
        root = self.request.scope.get("root_path", "")
        path = "/".join([root, *map(segment, parts)]) if parts else f"{root}/"
        named = {name: value for name, value in query.items() if value not in (None, "", False)}
        return f"{path}?{urlencode(named)}" if named else path

    @property
    def name(self) -> str:
        """Return the name of the queue in the path."""
        return from_segment(self.request.path_params["queue"])

    @property
    def queue(self) -> DPQ[Any]:
        """Return the queue in the path; for a page that only shows, an object that only reads."""
        return self.queue_of(self.name)

    def queue_of(self, name: str) -> DPQ[Any]:
        """Return the queue of a name, as `queue`."""
        watch = self.site.watch(name)
        changes = self.request.method not in SAFE
        return (changes and self.site.directory.get(name)) or watch.queue

    def part(self, name: str) -> str:
        """Return another name in the path."""
        return from_segment(self.request.path_params[name])

    def field(self, name: str, default: str = "") -> str:
        """Return one field of the form, without blanks around it."""
        return self.form.get(name, [default])[0].strip()

    def said(self, name: str) -> Any:
        """Return what a form or the JSON of a program says; None for nothing or an empty field."""
        return self.json.get(name) if self.for_programs else self.field(name) or None

    def number(self, name: str) -> int | float:
        """Return a number of the form or the JSON."""
        return read_number(self.said(name), name)

    def browse(self, verb: str, *args: Any, **named: Any) -> Any:
        """Run a read-only operation on the queue of the path; see `dpq.verbs.browse`."""
        watch = self.site.watch(self.name)
        return session_of(watch.queue).run(getattr(watch.browser, verb), *args, **named)

    def shared(self, verb: str, *args: Any) -> Any:
        """Run a read-only operation as `browse` does, at most once a second for all tabs."""
        key = (verb, self.name, *map(repr, args))
        return self.site.shared.get(key, lambda: self.browse(verb, *args))

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
        queue = self.request.path_params.get("queue")
        html = self.site.templates.get_template(template).render(
            call=self,
            url=self.url,
            may=self.may,
            badge=self.site.badge,
            every=EVERY_MS,
            server=self.site.server,
            access=self.site.guard.access,
            here=self.path,
            queue=None if queue is None else from_segment(queue),
            **shown,
        )
        answer = tagged(self.request, html.encode(), "text/html; charset=utf-8", status)
        now = str(self.site.now_ms())
        answer.headers["x-dpq-now"] = now
        if answer.body:  # set after the ETag: the clock must not change the ETag
            answer.body = bytes(answer.body).replace(NOW, now.encode().ljust(len(NOW)), 1)
        return answer

    def answer(self, value: Any, status: int = 200) -> Response:
        """Make an answer of the API."""
        text = to_json(json_safe(value), inf_nan_mode="strings", fallback=str)
        return self.answer_json(text, status)

    def answer_json(self, text: bytes, status: int = 200) -> Response:
        """Make an answer of the API from JSON that has no integer beyond 2^53."""
        return tagged(self.request, text, "application/json", status)

    def go(self, *parts: str, **query: Any) -> Response:
        """Send the browser to another page, after an action."""
        return RedirectResponse(self.url(*parts, **query), 303)

    def done(self, value: Any, *parts: str, **query: Any) -> Response:
        """Answer an action: a program gets the value, and a browser goes to another page."""
        return self.answer(value) if self.for_programs else self.go(*parts, **query)


def is_for_programs(path: str) -> bool:
    """Return True for a path of the JSON API, or that of Prometheus."""
    return path.startswith("/api/") or path == "/metrics"


View = Callable[[Call], Response]
"""The function of a page or of an API route."""


def tagged(request: Request, body: bytes, kind: str, status: int) -> Response:
    """Make an answer with an ETag, or 304 if the browser has it already."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "vary": "cookie"}
    if status == 200 and request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers, kind)


def read_number(text: Any, name: str) -> int | float:
    """Read a number of a form, an int exactly."""
    if len(str(text)) > NUMBER_CHARACTERS:
        raise ConfigurationError(
            f"{name} must be a number of at most {NUMBER_CHARACTERS} characters"
        )
    try:
        return int(str(text))
    except ValueError:
        try:
            return float(str(text))
        except ValueError:
            raise ConfigurationError(f"{name} is {text!r}: it must be a number") from None


def read_whole(text: Any, name: str) -> int:
    """Read a whole number of a form or a query."""
    number = read_number(text, name)
    if isinstance(number, float) and not number.is_integer():
        raise ConfigurationError(f"{name} is {text!r}: it must be a whole number")
    return int(number)
