"""Programs that answer HTTP: `dpq web`, `dpq admin metrics`, `dpq admin scheduler` with its ports.

The health endpoint, for orchestrators, answers without a call to the server:

    GET /live    200 while the loops move; 503 if one is stuck: restart it
    GET /ready   200 while it works; 503 while it begins or stops, or the server is away
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from socketserver import TCPServer, ThreadingMixIn
from typing import Annotated, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import typer

from dpq import DPQ
from dpq.cli import _command as cmd
from dpq.cli._terminal import Failed, Log, log_more, talk
from dpq.link.connect import Opened, open_url
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.masking import server_name as server_name_of
from dpq.model.reports import Health
from dpq.scheduler import Scheduler, run_daemon
from dpq.views.sampler import Known, Named

logger = logging.getLogger(__name__)

LOCAL = "127.0.0.1"
LOOPBACK = (LOCAL, "localhost", "::1")
TOKEN_VARIABLE = "DPQ_WEB_TOKEN"  # noqa: S105 - its name
Address = Annotated[str, cmd.option("ADDRESS")]
PortNumber = Annotated[int, cmd.option("PORT", min=0, max=65535)]


def missing(error: ImportError, extra: str, way_out: str) -> Failed:
    """Make the error for a command whose packages are not installed."""
    return Failed(
        f"{error.name or error} is missing: install DPQ with its extra {extra!r}, or give {way_out}"
    )


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # without a byte, until a connection ends: as long as Prometheus waits

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)


class Port(ThreadingMixIn, WSGIServer):
    """Serves a WSGI application from threads until `close`; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, host: str, port: int, application: Any, name: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.set_app(application)
        self.address: tuple[str, int] = self.socket.getsockname()[:2]
        at = "http://[{}]:{}" if ":" in host else "http://{}:{}"
        self.url = at.format(*self.address)
        self._thread = threading.Thread(target=self.serve_forever, name=f"dpq-{name}", daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Bind without a question to a name server, which the one of `HTTPServer` asks."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a request failed."""
        logger.debug("a request of %s failed", client_address, exc_info=True)

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class HealthSource:
    """Asks for the health of the worker or scheduler by `ask`, once it runs; listens on a port."""

    def __init__(self, port: int | None = None, host: str = LOCAL) -> None:
        begins = Health(live=True, ready=False, reasons=("it has not begun",))
        self.ask: Callable[[], Health] = lambda: begins
        if port is not None:
            url = Port(host, port, self, "health").url
            logger.info("health: %s/live and /ready", url, extra=fields("health_begins"))

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


@cmd.command
def metrics(
    ctx: typer.Context,
    host: Address = LOCAL,
    port: PortNumber = 9377,
    server_name: cmd.Name | None = None,
    queue: cmd.Queues = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Answer scrapes of Prometheus until Ctrl-C: tasks, rates, limits, workers.

    It covers the named queues, or all that are known. It changes nothing, and reads at most once a
    second. `dpq web` and `dpq admin scheduler --metrics-port` serve the same metrics. It needs the
    package of the extra `metrics`.
    """
    log_more()
    opened = open_url(url)
    names = cmd.named_queues(ctx, queue, also=False)
    with closing(opened), closing(serve_metrics(opened, names, host, port, server_name)) as served:
        talk(f"{served.url}/metrics; Ctrl-C ends it")
        threading.Event().wait()


def serve_metrics(
    opened: Opened, names: Sequence[str] | None, host: str, port: int, server: str | None
) -> Port:
    """Answer scrapes about some queues, or all that are known, from threads of their own."""
    try:
        from prometheus_client import make_wsgi_app

        from dpq.metrics import Exporter
    except ImportError as error:
        raise missing(error, "metrics", "`pip install 'prometheus-client>=0.20'`") from error
    exporter = Exporter(_shown(opened, names), server=server or server_name_of(opened.label))
    return Port(host, port, make_wsgi_app(exporter.registry), "metrics")


def _shown(opened: Opened, names: Sequence[str] | None) -> Any:
    """Return the named queues, or all that the server knows."""
    client = opened.client
    return Named([DPQ(client, name) for name in names]) if names else Known(client)


@cmd.command
def scheduler(
    ctx: typer.Context,
    queue: cmd.Queues = None,
    log: Log = "text",
    health_port: PortNumber | None = None,
    health_host: Address = LOCAL,
    metrics_port: PortNumber | None = None,
    metrics_host: Address = LOCAL,
    server_name: cmd.Name | None = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C: due tasks and expired leases become ready.

    It is optional, since each pop does the same. Several may run at once.

    Args:
        metrics_port: Answer scrapes of Prometheus on this port, as `dpq admin metrics` does; 0
            takes a free one.
        metrics_host: The address of --metrics-port; 0.0.0.0 for all.
    """
    log_more()
    names = cmd.named_queues(ctx, queue, also=False) or None
    source = HealthSource(health_port, health_host)

    def watch(daemon: Scheduler) -> None:
        source.ask = daemon.health

    with ExitStack() as stack:
        if metrics_port is not None:
            opened = open_url(url)  # scrapes have their own client, so that none delays the upkeep
            stack.callback(opened.close)
            served = serve_metrics(opened, names, metrics_host, metrics_port, server_name)
            logger.info("metrics: %s/metrics", served.url)
        run_daemon(url, names, watch)


@cmd.command
def web(
    ctx: typer.Context,
    host: Address = LOCAL,
    port: PortNumber = 8321,
    write: bool = False,
    token_env: cmd.Name = TOKEN_VARIABLE,
    name: cmd.Names = None,
    badge: cmd.Text | None = None,
    no_payloads: bool = False,
    server_name: cmd.Name | None = None,
    queue: cmd.Queues = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Show queues in a browser until Ctrl-C: tasks, limits, dead letters, workers.

    It shows the named queues, or all that are known. It needs the packages of the extra `web`. By
    default it listens on this machine only, and changes nothing. Each action writes a line to the
    log. Programs that send the token in DPQ_PUSH_TOKEN may push tasks, and do nothing else.

    Args:
        host: The address to listen on; any but 127.0.0.1 needs a token.
        write: Allow changes. Without it, the dashboard is read-only.
        token_env: The variable with the token to log in with: at least 32 characters.
        name: A name by which browsers reach it, beside the address and the names of this machine;
            repeat it for more.
        badge: The name of the environment, at the top of each page.
        no_payloads: Show no payloads.
        server_name: The server's name on each page, and the label `server` of /metrics; by default
            the URL without its password.
    """
    log_more()
    try:
        import uvicorn

        from dpq.web import access
        from dpq.web.routes import app
    except ImportError as error:
        way_out = "`pip install 'starlette>=0.45' 'jinja2>=3.1.5' 'uvicorn>=0.31'`"
        raise missing(error, "web", way_out) from error
    token = os.environ.get(token_env) or None
    if host not in LOOPBACK and token is None:
        raise ConfigurationError(
            f"--host {host} lets others reach it: put a token of at least 32 characters into the "
            f"variable {token_env}, as `python -c 'import secrets; print(secrets.token_urlsafe())'`"
            " prints it"
        )
    at = f"[{host}]" if ":" in host else host
    hosts = (*access.LOOPBACK, at.lower(), *(each.lower() for each in name or ()))
    pushes = os.environ.get("DPQ_PUSH_TOKEN") or None
    given: Any = {"write": write, "token": token, "hosts": hosts}
    who = access.Access(**given, payloads=not no_payloads, push_token=pushes)
    names = cmd.named_queues(ctx, queue, also=False)
    with closing(open_url(url)) as opened:
        site = app(
            _shown(opened, names), access=who, badge=badge or "", server=server_name or opened.label
        )
        server = uvicorn.Server(uvicorn.Config(site, log_level="warning", lifespan="off"))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=512) as listening:
            may = "may change queues" if write else "read only"
            talk(f"http://{at}:{listening.getsockname()[1]}/ ({may}); Ctrl-C ends it")
            server.run([listening])
