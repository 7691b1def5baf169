"""scopes: the names of what has a limit or is closed, a page at a time."""


def walk(probe, part):
    """All names, and how many calls they took."""
    names, cursor, calls = [], b"0", 0
    while calls == 0 or cursor != b"0":
        cursor, *page = probe.call("scopes", part, cursor)
        names += page
        calls += 1
    return names, calls


def test_closed(q, clock, probe):
    """The closed groups: by hand, by a 429 or because they are spent."""
    q.set_limit(1, 10, group="spent")
    for name in ("spent", "429"):
        q.push(1, group=name)
        q.push(1, group=name)
    for task in q.pop_many(2):
        if task.group == "429":
            q.rate_limited(task, 10)
    q.delay_group("by hand", 10)
    names, _ = walk(probe, "closed")
    assert sorted(names) == [b"429", b"by hand", b"spent"]


def test_pages(q, clock, probe):
    """Hundreds come in bounded pages, all of them, whatever their names."""
    names = {f"g{i} {'x' * (i % 70)}" for i in range(700)}
    for name in names:
        probe.redis.zadd(probe.key("closed"), {name: clock.ms + 1000})
        probe.redis.hset(probe.key("limits"), f"group:{name}", "1")
    probe.redis.hset(probe.key("conf"), mapping={"next_event": clock.ms, "gated": 1})
    found, calls = walk(probe, "closed")
    assert {name.decode() for name in found} == names
    assert calls > 1
    assert {state.group for state in q.groups()} == names
    found, calls = walk(probe, "limits")
    assert {name.decode() for name in found} == {f"group:{name}" for name in names}
    assert calls > 1
