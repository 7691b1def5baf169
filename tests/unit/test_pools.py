"""Pools: which members and weights a limit may have, and the text that is stored."""

import pytest

from dpq import DPQ, ConfigurationError
from dpq.limits.rules import LimitRules


@pytest.mark.parametrize(
    ("members", "group", "told"),
    [
        (["a"], None, "members are given for the queue: only a named group has members; name it"),
        (["a"], "*", "members are given for every group: only a named group has members"),
        ([], "g", "members are 0: they must be 1 to 64"),
        ([str(n) for n in range(65)], "g", "members are 65: they must be 1 to 64"),
        (["a", "b", "a"], "g", "members name 'a' twice"),
    ],
)
def test_refused(members, group, told):
    """The error says what is wrong, and the way out."""
    with pytest.raises(ConfigurationError, match=told):
        LimitRules.checked(1, 1, members=members, group=group)


def test_weights():
    """Only groups take turns."""
    assert LimitRules.checked(weight=3, group="*").weight == 3
    with pytest.raises(ConfigurationError, match="weight is given for the queue: only groups"):
        LimitRules.checked(weight=3)


def test_a_member_needs_a_group(redis):
    """A push that pins a task without a group is refused."""
    q = DPQ(redis, "a-member-needs-a-group")
    with pytest.raises(ConfigurationError, match="the task has no group: a member belongs to the"):
        q.push(1, member="key-a")
