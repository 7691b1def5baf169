"""`manage.py dpq_worker`: runs the named tasks of all apps until SIGTERM or Ctrl-C."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections, reset_queries

from dpq import ConfigurationError, Worker
from dpq.django.queues import open_queue, queues, tasks
from dpq.worker.base import DEFAULT_GRACE


class Command(BaseCommand):
    """The command."""

    help = (
        "Run the tasks of all apps. The first SIGTERM or Ctrl-C lets them finish, the second gives "
        "them back. Exit codes: 0 all have finished, 1 some were given back or the call is wrong."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments, with the names that `dpq worker` has."""
        parser.add_argument(
            "--queue",
            action="append",
            metavar="NAME",
            help="A queue; repeat it for more. Without it: QUEUE of the setting DPQ.",
        )
        parser.add_argument(
            "--concurrency", type=int, default=1, metavar="N", help="Tasks that run at once: 1."
        )
        parser.add_argument(
            "--time-limit", type=float, metavar="SECONDS", help="Longest run of a task."
        )
        parser.add_argument(
            "--keep-result",
            type=float,
            metavar="SECONDS",
            help="Keep what tasks return for that long; a task may set its own.",
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=DEFAULT_GRACE,
            metavar="SECONDS",
            help=f"Time for tasks to finish after a signal: {DEFAULT_GRACE:g}.",
        )
        parser.add_argument(
            "--drain", action="store_true", help="End when no live task is left in the queues."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run a worker.

        Raises:
            CommandError: An argument or the setting `DPQ` is wrong, or tasks were given back.
        """
        named = dict.fromkeys(options["queue"] or [None])
        try:
            worker = Worker(
                [open_queue(name) for name in named],
                tasks,
                concurrency=options["concurrency"],
                time_limit=options["time_limit"],
                keep_result=options["keep_result"],
                grace=options["grace"],
                before=refresh_connections,
                after=refresh_connections,
            )
            names = ", ".join(queue.queue_name for queue in worker.queues)
            self.stderr.write(f"{worker.name}: {len(tasks.names)} kinds of tasks, queues: {names}")
            worker.run(until_empty=options["drain"])
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        finally:
            queues.close()
        if worker.given_back:
            raise CommandError(f"{worker.given_back} tasks were given back")


def refresh_connections(*_: object) -> None:
    """Close database connections that are broken or too old, as Django does around a request."""
    reset_queries()
    close_old_connections()
