"""hash_table: groups and their gates are hash tables, whatever the number of groups."""

import pytest

from dpq import Push


def encoding(q, server, part):
    assert server is not None
    return q.redis.object("encoding", f"dpq:{{{q.queue_name}}}:{part}").decode()


@pytest.mark.parametrize("again", [False, True], ids=["new", "with a better task"])
def test_heads_of_a_batch(q, server, again):
    """A push into many groups makes `groups` a table, and leaves no field beside the heads."""
    for priority in range(1 + again):
        q.push_many([Push(i, priority, group=f"g{i}") for i in range(20)])
    assert encoding(q, server, "groups") == "hashtable"
    assert q.redis.hlen(f"dpq:{{{q.queue_name}}}:groups") == 20
    assert q.check() == []


def test_heads_one_by_one(q, server):
    """Of pushes one by one at least one of 100 does so."""
    for i in range(101):
        q.push(i, group=f"g{i}")
    assert encoding(q, server, "groups") == "hashtable"
    assert q.redis.hlen(f"dpq:{{{q.queue_name}}}:groups") == 101


def test_gates(q, server):
    """A pop from many groups makes `gates` a table, and leaves no field beside the gates."""
    q.set_limit(10, 60, group="*")
    q.push_many([Push(i, group=f"g{i}") for i in range(20)])
    assert len(q.pop_many(20)) == 20
    assert encoding(q, server, "gates") == "hashtable"
    assert q.redis.hlen(f"dpq:{{{q.queue_name}}}:gates") == 20
    assert q.check() == []
