"""`dpq admin scheduler` and `dpq admin metrics`, and the ports beside daemons.

The health endpoint, for orchestrators, answers without a call to the server:

    GET /live    200 while the loops move; 503 if one is stuck: restart it
    GET /ready   200 while it works; 503 while it begins or stops, or the server is away
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Annotated, Any

import typer

from dpq.cli._log import Log
from dpq.cli._options import DEFAULT_URL, Queues, Url, named_queues, option
from dpq.cli._port import LOCAL, Port, missing, port
from dpq.cli._terminal import for_long, talk
from dpq.link.connect import Opened, open_url
from dpq.model.log_fields import fields
from dpq.model.masking import server_name as server_name_of
from dpq.model.reports import Health
from dpq.scheduler import Scheduler, run_daemon

logger = logging.getLogger(__name__)

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
        logger.info("health: %s/live and /ready", url, extra=fields("health_begins"))
    return source


MetricsPort = Annotated[
    int | None,
    port("Answer scrapes of Prometheus on this port, as `dpq admin metrics` does", unset="none"),
]
MetricsHost = Annotated[str, option("ADDRESS", "The address of --metrics-port; 0.0.0.0 for all.")]
ServerName = Annotated[
    str | None,
    option(
        "NAME",
        "The label `server` of the metrics; programs that read the same server need the same name.",
        unset="host:port/db of the URL, or the path of its socket",
    ),
]


@for_long
def metrics(
    ctx: typer.Context,
    host: Annotated[str, option("ADDRESS", "The address to listen on; 0.0.0.0 for all.")] = LOCAL,
    port: Annotated[int, port("The port")] = 9377,
    server_name: ServerName = None,
    queue: Queues = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Answer scrapes of Prometheus until Ctrl-C: tasks, rates, limits, workers.

    It tells of the named queues, or of all that are known. It changes nothing, and reads once a
    second at most. `dpq web` and `dpq admin scheduler --metrics-port` tell the same. It needs the
    package of the extra `metrics`.
    """
    opened = open_url(url)
    names = named_queues(ctx, queue, also=False)
    with closing(opened), closing(serve_metrics(opened, names, host, port, server_name)) as served:
        talk(f"{served.url}/metrics; Ctrl-C ends it")
        threading.Event().wait()


def serve_metrics(
    opened: Opened, names: Sequence[str] | None, host: str, port: int, server: str | None
) -> Port:
    """Answer scrapes about some queues, or all that are known, from threads of their own."""
    from dpq import DPQ
    from dpq.views.sampler import Known, Named

    try:
        from prometheus_client import make_wsgi_app

        from dpq.metrics import Exporter
    except ImportError as error:
        raise missing(error, "metrics", "`pip install 'prometheus-client>=0.20'`") from error
    client = opened.client
    directory = Named([DPQ(client, name) for name in names]) if names else Known(client)
    exporter = Exporter(directory, server=server or server_name_of(opened.label))
    return Port(host, port, make_wsgi_app(exporter.registry), "metrics").start()


@for_long
def scheduler(
    ctx: typer.Context,
    queue: Queues = None,
    log: Log = "text",
    health_port: HealthPort = None,
    health_host: HealthHost = LOCAL,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOCAL,
    server_name: ServerName = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C: due tasks and expired leases become ready.

    It is optional, since each pop does the same. Several may run at once.
    """
    names = named_queues(ctx, queue, also=False) or None
    source = health_source(health_port, health_host)

    def watch(daemon: Scheduler) -> None:
        source.ask = daemon.health

    with ExitStack() as stack:
        if metrics_port is not None:
            opened = open_url(url)  # scrapes have their own client, so that none delays the upkeep
            stack.callback(opened.close)
            served = serve_metrics(opened, names, metrics_host, metrics_port, server_name)
            logger.info("metrics: %s/metrics", served.url)
        run_daemon(url, names, watch)
