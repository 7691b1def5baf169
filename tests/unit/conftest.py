"""What the tests without a server share."""

from typing import Any

import pytest

from dpq import Backoff
from dpq.operations.description import Description
from dpq.operations.queue import QueueOperations


@pytest.fixture
def description() -> Description[Any]:
    return Description(
        "name",
        payload_type=Any,
        default_visibility=30,
        default_max_attempts=10,
        order=None,
        aging=None,
        fairness=None,
        payloads=None,
        backoff=Backoff(),
        max_payload_bytes=1000,
        dead_max_tasks=None,
        dead_max_age=None,
        partitions=None,
        clock=lambda: 5,
    )


@pytest.fixture
def operations(description: Description[Any]) -> QueueOperations[Any]:
    return QueueOperations(description, ask=2)
