"""Pools: which members and weights a limit may have, and the text that is stored."""

import pytest

from dpq import DPQ, ConfigurationError
from dpq.limits.limits import RateLimit, read_rules, write_rules
from dpq.limits.pools import add_pool, group_weight, pool_members, split_pool


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
        pool_members(members, group)


@pytest.mark.parametrize("weight", [None, 0.01, 1, 2.5, 100])
@pytest.mark.parametrize("members", [(), ("a",), ("key|a", "0*3", "é ~")])
@pytest.mark.parametrize("slots", [None, 17])
def test_the_text(weight, members, slots):
    """What is written is read, whatever the names look like."""
    windows = (RateLimit(60, 60, 2), RateLimit(9, 3600, slack=1, unit="tokens"))
    text = add_pool(write_rules(windows, slots), members, weight)
    assert split_pool(text)[1:] == (members, weight or 1)
    assert read_rules(text) == (windows, slots)
    assert (text == write_rules(windows, slots)) == (weight is None and not members)


def test_weights():
    """Only groups take turns."""
    assert (group_weight(None, None), group_weight(3, "*")) == (None, 3)
    with pytest.raises(ConfigurationError, match="weight is given for the queue: only groups"):
        group_weight(3, None)


def test_a_member_needs_a_group(redis):
    """A push that pins a task without a group is refused."""
    q = DPQ(redis, "a-member-needs-a-group")
    with pytest.raises(ConfigurationError, match="the task has no group: a member belongs to the"):
        q.push(1, member="key-a")
