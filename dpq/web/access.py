"""The rights: the token, the session, hosts, same origin, and the audit log.

Each request passes `Guard.admit`, and each action `Guard.allow`. No request or action has another
way.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dpq.model.display import shown
from dpq.model.errors import ConfigurationError

audit = logging.getLogger("dpq.web.audit")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine in the header Host."""

TOKEN_LENGTH = 32
"""Characters of a token at least: as many as `secrets.token_urlsafe(24)` makes."""

SESSION_SECONDS = 12 * 3600
"""Seconds that a browser stays logged in: a working day."""

COOKIE = "dpq_session"

PUSH_PATH = re.compile(r"(?:^|/)api/queues/[^/:]+/tasks$")
"""The path at which a program pushes; an application may mount the dashboard below another."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""The headers of every answer."""

ACTIONS = {
    "push": "add tasks",
    "pause": "pause the queue",
    "resume": "resume the queue",
    "cancel": "cancel live tasks",
    "update": "change priorities",
    "run": "make delayed tasks due now",
    "release": "give leases back, so that the tasks may run again at once",
    "quiet": "let a worker take no new tasks",
    "unquiet": "let a quiet worker take tasks again",
    "bury": "make running tasks dead letters",
    "replay": "make dead letters live again",
    "purge": "remove dead letters, or all tasks of a state",
    "open": "open a group",
    "close": "close a group",
    "limit": "set or clear a limit",
}
"""Every action, and what it does."""


def same_host(origin: str, host: str) -> bool:
    """Return True if an `Origin` names the host and the port of a header Host."""
    scheme, _, named = origin.lower().partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme)
    if usual is None or not host:
        return False
    return named.removesuffix(usual) == host.lower().removesuffix(usual)


def _bearer(request: Request) -> str:
    """Return the token of the header Authorization, or an empty text."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


def _same(given: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given.encode(), token.encode())


@dataclass(frozen=True)
class Access:
    """The rights of the users of the dashboard.

    Attributes:
        write: Allow actions; else pages only show.
        token: At least 32 characters that a browser or a program must give first; None: no token.
        hosts: Names that the header Host may have, without ports. None: the names of this machine.
            `("*",)` takes any name, for an application that checks names itself.
        payloads: Show payloads.
        allow: A further check of each action, called with the request, the action and the name of
            the queue; it returns True if the action may go on. An application that mounts the
            dashboard checks its users here.
        user: Names the user of a request, for the audit log.
        push_token: At least 32 characters with which a program may push tasks over the API, also
            without `write`, and do nothing else. None: there is no such token.
    """

    write: bool = False
    token: str | None = None
    hosts: tuple[str, ...] | None = None
    payloads: bool = True
    allow: Callable[[Request, str, str], bool] | None = None
    user: Callable[[Request], str] | None = None
    push_token: str | None = None

    def __post_init__(self) -> None:
        for token in (self.token, self.push_token):
            if token is not None and len(token) < TOKEN_LENGTH:
                raise ConfigurationError(
                    f"the token has {len(token)} characters: it must have at least {TOKEN_LENGTH}, "
                    "as `python -c 'import secrets; print(secrets.token_urlsafe())'` prints them"
                )


class Guard:
    """Checks requests and actions against an `Access`."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.time) -> None:
        """Make the secret of this process, or of the token; `clock` returns the time in seconds."""
        self.access = access
        self._clock = clock
        seed = access.token.encode() if access.token else secrets.token_bytes(32)
        self._secret = hashlib.sha256(b"dpq web " + seed).digest()

    def new_session(self) -> str:
        """Make the value of a session's cookie: the end of the session, and a signature."""
        end = str(int(self._clock()) + SESSION_SECONDS)
        return f"{end}.{hmac.new(self._secret, end.encode(), 'sha256').hexdigest()}"

    def is_logged_in(self, request: Request) -> bool:
        """Return True if a request has a session that is signed and has not ended."""
        end, _, signature = request.cookies.get(COOKIE, "").partition(".")
        signed = hmac.new(self._secret, end.encode(), "sha256").hexdigest()
        return _same(signature, signed) and int(end) > self._clock()

    def is_token(self, given: str) -> bool:
        """Compare a token with that of the dashboard, in constant time."""
        return _same(given, self.access.token)

    def only_pushes(self, request: Request) -> bool:
        """Return True for a push by a program that bears the token for pushes."""
        pushes = request.method == "POST" and PUSH_PATH.search(request.url.path)
        return bool(pushes) and _same(_bearer(request), self.access.push_token)

    def admit(self, request: Request, *, open_to_all: bool = False) -> None:
        """Check the host of a request, and the token, before its body is read."""
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
        hosts = LOOPBACK if self.access.hosts is None else self.access.hosts
        if "*" not in hosts and name.lower() not in map(str.lower, hosts):
            raise HTTPException(
                400, f"this dashboard does not answer to the host {name!r}: start it with --name"
            )
        if open_to_all or self.access.token is None:
            return
        if not (self.is_logged_in(request) or self._is_known_program(request)):
            raise HTTPException(401, "log in with the token of the dashboard")

    def _is_known_program(self, request: Request) -> bool:
        """Return True for a program that sends the token, or that for pushes, with a request."""
        return self.is_token(_bearer(request)) or self.only_pushes(request)

    def require_own_page(self, request: Request) -> None:
        """Check that a page of this dashboard sent a request, as the browser says, or a program
        that is known by its token."""
        if self._is_known_program(request):
            return
        headers = request.headers
        site, origin, host = (headers.get(each) for each in ("sec-fetch-site", "origin", "host"))
        own = same_host(origin or "", host or "")
        if own if site is None else site == "same-origin" and (own or origin in (None, "null")):
            return
        raise HTTPException(
            403,
            "only a page of this dashboard may do that: open it and try there; a proxy before the "
            "dashboard must pass the header Host on as it came; a program gives the token",
        )

    def require_write(self, request: Request) -> None:
        """Refuse a request that may change something, unless this dashboard allows changes."""
        if not self.access.write and not self.only_pushes(request):
            self._note(request, f"refused: {request.method} {request.url.path}")
            raise HTTPException(403, "this dashboard only shows: start `dpq web` with --write")

    def who(self, request: Request) -> tuple[str, str]:
        """Return the user and the address of a request, `-` for what is not known."""
        user = self.access.user(request) if self.access.user else "-"
        return user, request.client.host if request.client else "-"

    def _note(self, request: Request, text: str) -> None:
        user, address = self.who(request)
        audit.info("%s", shown(f"{text} user={user!r} from={address}"))

    def may(self, request: Request, action: str, queue: str) -> bool:
        """Return True if an action is allowed."""
        if action not in ACTIONS:
            return False
        pushes = action == "push" and self.only_pushes(request)
        if not (self.access.write or pushes):
            return False
        return self.access.allow is None or bool(self.access.allow(request, action, queue))

    def allow(self, request: Request, action: str, queue: str, about: str = "") -> None:
        """Check an action, and write a line into the audit log. No other code does either."""
        allowed = self.may(request, action, queue)
        self._note(request, f"{'' if allowed else 'refused: '}{action} queue={queue!r} {about}")
        if not allowed:
            raise HTTPException(403, f"you may not {ACTIONS.get(action, action)} here")
