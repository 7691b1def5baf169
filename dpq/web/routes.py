"""The ASGI application: routes, and the one way from a request to its answer."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpq import DPQ, ConfigurationError, DPQError, TaskNotFoundError
from dpq.explain.verdict_facts import server_away
from dpq.model.errors import DuplicateTaskError, LimitChangedError, QueueFullError
from dpq.model.validation import one_line
from dpq.queue.inside import session_of
from dpq.queue.looking import no_answer
from dpq.views.sampler import Directory, Named
from dpq.web import api, forms, limit_pages, pages, server_pages, task_pages
from dpq.web.access import HEADERS, Access
from dpq.web.api import Row, openapi
from dpq.web.pages import FILTERS
from dpq.web.site import BODY_BYTES, LOGIN_BYTES, Call, Site, View

log = logging.getLogger("dpq.web")

PAGES: list[tuple[str, str, View]] = [
    ("GET", "/", server_pages.overview),
    ("GET", "/workers", server_pages.workers),
    ("GET", "/events", server_pages.events),
    ("GET", "/recurring", server_pages.recurring),
    ("GET", "/q/{queue}", pages.queue),
    ("GET", "/q/{queue}/tasks", task_pages.tasks),
    ("POST", "/q/{queue}/tasks", forms.tasks),
    ("GET", "/q/{queue}/tasks/{id}", task_pages.task),
    ("GET", "/q/{queue}/limits", limit_pages.limits),
    ("POST", "/q/{queue}/limits", forms.limit),
    ("GET", "/q/{queue}/limit", limit_pages.limit),
    ("GET", "/q/{queue}/limit/change", limit_pages.change),
    ("POST", "/q/{queue}/group", forms.group),
    ("GET", "/q/{queue}/dead", pages.dead),
    ("GET", "/q/{queue}/events", pages.events),
    ("GET", "/q/{queue}/batches", pages.batches),
    ("GET", "/q/{queue}/workers", task_pages.workers),
    ("POST", "/q/{queue}/workers/{id}/{action}", forms.worker),
    ("POST", "/workers/{id}/{action}", forms.worker),
    ("POST", "/q/{queue}/pause", forms.pause),
    ("POST", "/q/{queue}/resume", forms.resume),
    ("GET", "/actions/{job}", forms.show_job),
    ("POST", "/actions/{job}", forms.job),
    ("GET", "/server", pages.server),
    ("GET", "/api", pages.api),
    ("GET", "/metrics", server_pages.metrics),
]

LIMIT = "windows concurrency in_order members weight expected"

API: list[Row] = [
    ("GET", "/api/openapi.json", pages.api, ""),
    ("GET", "/api/queues", api.queues, "start"),
    ("POST", "/api/queues/{queue}:pause", forms.pause, "seconds"),
    ("POST", "/api/queues/{queue}:resume", forms.resume, ""),
    ("GET", "/api/queues/{queue}", api.queue, ""),
    ("GET", "/api/queues/{queue}/tasks", api.tasks, f"{' '.join(FILTERS)} n after payload look"),
    ("POST", "/api/queues/{queue}/tasks", api.push, "payload priority delay group key"),
    ("POST", "/api/queues/{queue}/tasks:action", api.act, "action ids filter priority reason rate"),
    ("GET", "/api/queues/{queue}/tasks/{id}", api.task, "payload"),
    ("GET", "/api/queues/{queue}/limits", limit_pages.limits, "way q behind"),
    ("POST", "/api/queues/{queue}/limits", api.limit, LIMIT),
    ("DELETE", "/api/queues/{queue}/limits", api.limit, "expected"),
    ("POST", "/api/queues/{queue}/limits/{group}", api.limit, LIMIT),
    ("DELETE", "/api/queues/{queue}/limits/{group}", api.limit, "expected"),
    ("POST", "/api/queues/{queue}/groups/{group}:open", forms.group, "member"),
    ("POST", "/api/queues/{queue}/groups/{group}:close", forms.group, "seconds member"),
    ("GET", "/api/queues/{queue}/dead", pages.dead, "look"),
    ("GET", "/api/queues/{queue}/history", api.history, "seconds buckets"),
    ("GET", "/api/queues/{queue}/events", api.events, "after limit"),
    ("GET", "/api/queues/{queue}/batches", pages.batches, ""),
    ("GET", "/api/queues/{queue}/workers", api.workers, ""),
    ("POST", "/api/queues/{queue}/workers/{id}:release", forms.worker, ""),
    ("POST", "/api/queues/{queue}/workers/{id}:quiet", forms.worker, ""),
    ("POST", "/api/queues/{queue}/workers/{id}:unquiet", forms.worker, ""),
    ("GET", "/api/queues/{queue}/leases", api.leases, ""),
    ("GET", "/api/actions/{job}", forms.show_job, ""),
    ("POST", "/api/actions/{job}:run", forms.job, "expected"),
    ("DELETE", "/api/actions/{job}", forms.job, ""),
]


def app(
    queues: DPQ[Any] | Sequence[DPQ[Any]] | Directory,
    *,
    access: Access | None = None,
    badge: str = "",
    server: str = "",
) -> Starlette:
    """Make the dashboard of some queues, as an ASGI application."""
    if isinstance(queues, DPQ):
        queues = [queues]
    if isinstance(queues, Sequence):
        for queue in queues:
            if not isinstance(queue, DPQ):
                raise ConfigurationError(
                    f"a queue is {queue!r}: it must be a DPQ; beside an AsyncDPQ, make a DPQ of "
                    "the same name for the dashboard"
                )
        server = server or (str(session_of(queues[0]).label) if queues else "")
        queues = Named(queues)
    site = Site(queues, access or Access(), badge, server)
    site.document = openapi(API)
    table: list[BaseRoute] = [
        Mount("/static", StaticFiles(packages=[("dpq.web", "static")])),
        Route("/login", _endpoint(site, forms.login, public=True), methods=["GET", "POST"]),
    ]
    rows = [*PAGES, *((method, path, view) for method, path, view, _ in API)]
    table += [Route(path, _endpoint(site, view), methods=[method]) for method, path, view in rows]
    table.append(Route("/{rest:path}", _endpoint(site, _nothing), methods=["GET", "POST"]))
    small = Middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)
    return Starlette(routes=table, middleware=[Middleware(_protected), small])


def _nothing(call: Call) -> Response:
    raise HTTPException(404, "there is no such page")


def _protected(app: ASGIApp) -> ASGIApp:
    """Give every answer the headers that protect it."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, with_headers)

    return call


def _endpoint(site: Site, view: View, *, public: bool = False) -> Callable[[Request], Any]:
    """Make the endpoint of a view: it reads the body, and answers in a thread."""

    async def endpoint(request: Request) -> Response:
        call, body = Call(site, request), b""
        try:
            site.guard.admit(request, open_to_all=public)
            if call.changes:
                body = await _read_body(request, LOGIN_BYTES if public else BODY_BYTES)
        except HTTPException as error:
            return _in_json(call, error.status_code, error.detail)
        except ClientDisconnect:
            return Response(status_code=400)  # the client has gone, so this answer is not read
        return await run_in_threadpool(answered, call, view, body, public)

    return endpoint


async def _read_body(request: Request, most: int) -> bytes:
    """Read the body of a request."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, f"the body is too long: at most {most} bytes are read")
    return bytes(body)


def answered(call: Call, view: View, body: bytes, public: bool) -> Response:
    """Answer a request that was admitted: call its view, and make a page of each error."""
    guard = call.site.guard
    try:
        call.read(body)
        if call.changes:
            guard.require_own_page(call.request)
            if not public:
                guard.require_write(call.request)
        answer = view(call)
        if call.changes:
            call.site.shared.forget()
    except Exception as error:
        return _of_error(call, error)
    return answer


AWAY = RedisConnectionError | RedisTimeoutError | OSError

ERRORS: list[tuple[Any, int, str, str]] = [
    (TaskNotFoundError, 404, "This task is gone", "It was finished, removed, or never there."),
    (LimitChangedError | QueueFullError | DuplicateTaskError, 409, "Not possible", ""),
    (ConfigurationError, 400, "That does not fit", "Nothing was changed."),
    (
        AuthenticationError | NoPermissionError,
        *(503, "The server does not let the dashboard do that"),
        "docs/security.md has the rights of each role.",
    ),
    (
        AWAY,
        *(503, "The server does not answer"),
        "This page tries again by itself. Is the server running? Is its URL right?",
    ),
    (RedisError, 503, "The server refuses that", "The page “Server” says more."),
    (DPQError, 500, "The queue cannot be read", "`dpq doctor` says more."),
    (Exception, 500, "This is a fault of the dashboard", "Its log has the details."),
]
"""Errors, the status and the title of their page, and what a user can do."""


def _of_error(call: Call, error: Exception) -> Response:
    kind, status, title, way_out = next(row for row in ERRORS if isinstance(error, row[0]))
    about = one_line(str(error))
    if isinstance(error, HTTPException):
        status, title, way_out, about = error.status_code, "Not possible", "", error.detail
    elif kind is AWAY:
        about = one_line(str(server_away(call.name, no_answer(error), call.site.answered_ms)))
    elif status == 500 and not isinstance(error, DPQError):
        log.exception("a page failed: %s", call.path)
        about = ""
    if call.for_programs:
        return _in_json(call, status, about)
    return call.render(
        "error.html", status=status, title=title, about=about, way_out=way_out, code=status
    )


def _in_json(call: Call, status: int, message: str) -> Response:
    """Make the answer to a program, or to a visitor who was not admitted."""
    if status == 401 and not call.for_programs:
        return call.go("login")
    return JSONResponse({"error": {"status": status, "message": message}}, status)
