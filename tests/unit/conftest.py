"""What the tests without a server share."""

from typing import Any

import pytest

from dpq.operations.description import Description
from dpq.operations.queue import QueueOperations


@pytest.fixture
def description() -> Description[Any]:
    return Description("name", max_payload_bytes=1000, clock=lambda: 5)


@pytest.fixture
def operations(description: Description[Any]) -> QueueOperations[Any]:
    return QueueOperations(description)
