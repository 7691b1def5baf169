"""`dpq trail`: what happened to each task of a queue that keeps that."""

from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url
from dpq.cli._terminal import talk
from dpq.cli.events import After, Count, Follow, tell


def trail(
    after: After = "",
    count: Count = 100,
    follow: Follow = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what happened to each task: pushes, deliveries, ends; the oldest first.

    Only a queue made with `DPQ(..., trail_max_events=N)` keeps that. `dpq events` has the rare
    things of every queue.
    """
    with existing(url, queue) as q:
        if not tell(q.trail, after, count, follow, json):
            talk(f"nothing in the trail of {queue!r}: is it made with trail_max_events?")
