"""`/metrics`: the metrics for Prometheus, from the readings that all tabs share."""

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dpq.model.errors import DPQError
from dpq.model.masking import server_name
from dpq.views.sampler import Snapshot, Watch
from dpq.web.site import Call, Site

if TYPE_CHECKING:
    from dpq.metrics import Exporter

TYPE = "text/plain; version=0.0.4; charset=utf-8"


class QueueGoneError(DPQError):
    """A queue that is not there any more: a scrape goes on without it."""


def metrics(call: Call) -> Response:
    """Write the metrics of all queues of the dashboard; `dpq_up 0` if the server is away."""
    return Response(exporter_of(call.site).text(), media_type=TYPE)


def exporter_of(site: Site) -> "Exporter":
    """Return the exporter of a dashboard; it is made at the first scrape."""
    if site.exporter is None:
        try:
            from dpq.metrics import Exporter
        except ImportError:
            raise HTTPException(
                501, "install DPQ with its extra 'metrics', which brings prometheus-client"
            ) from None

        def snapshot(name: str, watch: Watch) -> Snapshot:
            try:
                return site.snapshot(name)
            except HTTPException as refused:  # the queue has gone since its name was read
                raise QueueGoneError(str(refused)) from None

        site.exporter = Exporter(site.directory, snapshot, server=server_name(site.server))
    made: Exporter = site.exporter
    return made
