"""Handlers that the compose file runs; put yours here."""

from dpq import Tasks

tasks = Tasks()


@tasks.task()
def mail(to: str) -> None:
    """Write a mail."""
    print("mail to", to)
