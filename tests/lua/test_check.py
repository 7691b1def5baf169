"""check: every kind of damage is found, and a sound queue has none."""

import pytest
from damage import DAMAGES, fill

from dpq.types import Problem


@pytest.fixture
def ids(q) -> dict[str, str]:
    """The ids of a queue with a task in every state."""
    ids = fill(q)
    assert q.check() == []
    return ids


@pytest.mark.damaged
@pytest.mark.parametrize("plant", DAMAGES, ids=lambda plant: plant.__name__)
def test_finds(q, probe, plant):
    """Planted damage is reported with its kind and its subject, nothing else is, and it stays."""
    ids = fill(q)
    assert q.check() == []
    expected = plant(probe, ids)
    stored = probe.stored()
    assert {(problem.kind, problem.subject) for problem in q.check()} == expected
    assert probe.stored() == stored


@pytest.mark.damaged
def test_finds_damage_on_a_later_page(q, probe):
    """The cursor is followed to the end: damage among many tasks is found once."""
    for i in range(700):
        q.push(i, delay=i)
    last = q.peek(700, "delayed")[-1].id
    probe.lose_body(last)
    assert q.check() == [Problem(kind="no payload", subject=last)]
