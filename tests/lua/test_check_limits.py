"""check: every kind of damage to what limits keep is found, and a sound queue has none."""

from collections.abc import Callable

import pytest
from damage import LIMIT_DAMAGES, SETTINGS_DAMAGES, fill_limits, fill_settings


@pytest.fixture
def ids(q, clock) -> dict[str, str]:
    """The ids of running tasks: of a counted group, of a group's probe, and of the queue's."""
    ids = fill_limits(q, clock)
    assert q.check() == []
    return ids


@pytest.mark.damaged
@pytest.mark.parametrize("plant", LIMIT_DAMAGES, ids=lambda plant: plant.__name__)
def test_finds(q, probe, ids, plant: Callable):
    """Planted damage is reported with its kind, subject and detail, nothing else is; it stays."""
    expected = plant(probe, ids)
    stored = probe.stored()
    assert {(found.kind, found.subject, found.detail) for found in q.check()} == expected
    assert probe.stored() == stored


@pytest.mark.damaged
@pytest.mark.parametrize("plant", SETTINGS_DAMAGES, ids=lambda plant: plant.__name__)
def test_finds_lost_settings(q, clock, probe, plant: Callable):
    """Each setting and each limit that is lost, or cannot be read, is named, and nothing else."""
    ids = fill_settings(probe, clock)
    assert q.check() == []
    expected = plant(probe, ids)
    stored = probe.stored()
    assert {(found.kind, found.subject) for found in q.check()} == expected
    assert probe.stored() == stored


def test_sound(q, clock, probe, ids):
    """What limits keep in every kind of state is sound: waiters at a full queue included."""
    q.set_limit(concurrency=3)
    q.push("more")
    assert q._session.run(q._operations.pop, 1, None, "-").tasks == []
    assert b"\t" in {member for member, _ in probe.stored()["tracked"]}
    assert q.check() == []
    q.clear_limit("counted")
    q.clear_limit("probe")
    assert q.check() == []
    q.purge()
    assert q.check() == []
