"""A server that a test ends, and starts again with its data, at the same socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soak.servers import Node

from dpq.server import Binary, find_binary


@contextmanager
def alone(directory: Path, binary: Binary | None = None, **settings: Any) -> Iterator[Node]:
    """A server without a replica: the first one, unless another is named."""
    node = Node(directory, binary or find_binary(), **settings)
    try:
        node.start()
        yield node
    finally:
        node.kill()
        node.client.close()
