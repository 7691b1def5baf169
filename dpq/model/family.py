"""The family of a queue: the queues that follow the limits of one. Their names say it. No I/O."""


def head_of(name: str) -> str:
    """Return the queue whose limits a queue follows: `api` for `{api}crawl`; else its own name."""
    return name[1 : name.index("}")] if name.startswith("{") else name
