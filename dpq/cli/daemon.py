"""`dpq admin scheduler`: the daemon that does the upkeep while no consumer pops."""

import logging
from contextlib import ExitStack

import typer

from dpq.cli._health_port import HealthHost, HealthPort, health_source
from dpq.cli._log import Log
from dpq.cli._options import DEFAULT_URL, Queues, Url, named_queues
from dpq.cli._port import LOCAL
from dpq.cli._terminal import for_long
from dpq.cli.metrics import MetricsHost, MetricsPort, ServerName, serve_metrics
from dpq.link.connect import open_url
from dpq.scheduler import Scheduler, run_daemon

logger = logging.getLogger(__name__)


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
