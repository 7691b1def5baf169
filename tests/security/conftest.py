"""The two faces of a queue, one call for both."""

from collections.abc import Iterator

import pytest
from kit.faces import FACES, Face, face_of


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """`DPQ` with `Worker`; `AsyncDPQ` with `AsyncWorker`, whose calls are awaited for the test."""
    with face_of(request.param) as face:
        yield face
