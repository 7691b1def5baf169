"""The health endpoint of `dpq worker` and `dpq scheduler`: /live and /ready, for orchestrators.

    GET /live    200 while the loops move; 503 if one is stuck: restart it
    GET /ready   200 while it works; 503 while it begins or stops, or the server is away

It answers without a call to the server. Must not know a queue.
"""

import json
import logging
from collections.abc import Callable
from typing import Annotated, Any

from dpq.cli._options import option
from dpq.cli._port import Port, port
from dpq.model.log_fields import fields
from dpq.model.reports import Health

log = logging.getLogger(__name__)

NOT_BEGUN = Health(live=True, ready=False, reasons=("it has not begun",))


class HealthSource:
    """Asks for the health of the worker or scheduler by `ask`, once it runs."""

    def __init__(self) -> None:
        self.ask: Callable[[], Health] = lambda: NOT_BEGUN

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Answer a request: a WSGI application."""
        path = environ["PATH_INFO"]
        if path in ("/live", "/ready"):
            health = self.ask()
            good = health.live if path == "/live" else health.ready
            status, said = "200 OK" if good else "503 Service Unavailable", health.model_dump()
        else:
            status, said = "404 Not Found", {"error": "there are /live and /ready"}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(said).encode() + b"\n"]


HealthPort = Annotated[
    int | None, port("Answer HTTP /live and /ready on this port, for orchestrators", seldom=True)
]
HealthHost = Annotated[
    str, option("ADDRESS", "The address of --health-port; 0.0.0.0 for all.", seldom=True)
]


def health_source(number: int | None, host: str) -> HealthSource:
    """Make a source; listen, if there is a port."""
    source = HealthSource()
    if number is not None:
        url = Port(host, number, source, "health").start().url
        log.info("health: %s/live and /ready", url, extra=fields("health_begins"))
    return source
