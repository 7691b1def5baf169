"""What the fuzzers share."""

from collections.abc import Callable

import pytest

from dpq.server import Server, find_binary


@pytest.fixture(scope="session")
def fuzzed_server(start_server: Callable[[str], Server]) -> Server:
    """The server that DPQ itself would choose."""
    first = find_binary()
    return start_server(f"{first.family}-{first.version.rpartition('.')[0]}")
