"""`dpq admin metrics`: the metrics of queues for Prometheus, from a process of its own."""

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer

from dpq.cli._options import DEFAULT_URL, Queues, Url, named_queues, option
from dpq.cli._port import LOCAL, Port, missing, port
from dpq.cli._terminal import for_long, talk
from dpq.link.connect import Opened, open_url
from dpq.model.masking import server_name as server_name_of

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
        raise missing(error, "metrics", "'prometheus-client>=0.20'") from error
    client = opened.client
    directory = Named([DPQ(client, name) for name in names]) if names else Known(client)
    exporter = Exporter(directory, server=server or server_name_of(opened.label))
    return Port(host, port, make_wsgi_app(exporter.registry), "metrics").start()
