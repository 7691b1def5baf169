"""Families: queues whose names begin with the name of a queue in braces follow its limits."""

from contextlib import suppress
from random import Random

import pytest
from kit.askers import Asker

from dpq import DPQ, ConfigurationError, Push
from dpq.protocol.command import once

SCOPES = [None, "host"]


@pytest.fixture
def family(redis, queue_name, clock):
    """The head, and two queues of its family; each is stored."""
    names = [queue_name, f"{{{queue_name}}}crawl", f"{{{queue_name}}}web"]
    queues = [DPQ(redis, name, clock=clock) for name in names]
    for each in reversed(queues):
        each._session.run(each._operations.open, create=True)
    yield queues
    for each in queues:
        assert each.check() == []
    for each in reversed(queues):
        each.drop()
        each.close()


def fill(queues, count=6, **options):
    """Push tasks into each queue."""
    for each in queues:
        each.push_many(Push(n, **options) for n in range(count))


def look(q, waiter=""):
    """What a pop of one task says."""
    return q._session.run(q._operations.pop, 1, None, waiter)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("setter", [0, 1, 2])
def test_a_rate_holds_for_all_queues(family, clock, scope, setter):
    """One unit is granted in each interval, whichever queue asks, and whichever has the limit."""
    family[setter].set_limit(4, 1, group=scope)
    fill(family, group=scope)
    granted = 0
    for _ in range(8):
        granted += sum(each.pop().task is not None for each in family)
        clock.advance(0.25)
    assert granted == 8


@pytest.mark.parametrize("scope", SCOPES)
def test_no_queue_starves(family, clock, scope):
    """The queue that has waited longest is next, though another one asks more often."""
    family[0].set_limit(4, 1, group=scope)
    fill(family, 20, group=scope)
    order = []
    for _ in range(12):
        for index in (0, 0, 0, 1, 0, 2, 0):
            if family[index].pop().task:
                order.append(index)
        clock.advance(0.25)
    assert len(order) == 12
    assert min(order.count(index) for index in range(3)) >= 3


@pytest.mark.parametrize("scope", SCOPES)
def test_a_queue_whose_consumers_are_gone_costs_a_moment(family, clock, scope):
    """A free unit is left to the queue that waits for longest for 50 ms, and not again."""
    head, crawl, _ = family
    head.set_limit(4, 1, group=scope)
    fill(family, group=scope)
    assert crawl.pop().task
    assert not crawl.pop().task
    clock.advance(0.001)
    assert not head.pop().task
    clock.advance(0.249)
    assert not head.pop().task
    clock.advance(0.049)
    assert not head.pop().task
    clock.advance(0.001)
    assert head.pop().task
    clock.advance(0.25)
    assert head.pop().task


@pytest.mark.parametrize("scope", SCOPES)
def test_leases_of_all_queues_count(family, clock, scope):
    """A concurrency counts the leases of all queues; the end of one wakes the next queue."""
    head, crawl, web = family
    head.set_limit(concurrency=2, group=scope)
    fill(family, group=scope)
    first = crawl.pop()
    assert first.task
    assert web.pop().task
    assert [each.pop().task for each in family] == [None] * 3
    assert crawl.ack(first.task)
    assert sum(each.pop().task is not None for each in family) == 1


def test_leases_from_before_the_limit_count(family):
    """Leases of each queue that began before there was a limit count for it."""
    head, crawl, _ = family
    fill(family)
    fill(family, group="host")
    assert all(each.pop_many(12) for each in family[1:])
    head.set_limit(concurrency=20)
    head.set_limit(concurrency=12, group="host")
    assert len(head.pop_many(12)) == 0
    crawl.set_limit(concurrency=25)
    assert len(head.pop_many(12)) == 1


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_a_429_closes_for_all(family, clock, scope):
    """A 429 in one queue closes the group, or all queues; then a single task is the probe."""
    head, crawl, web = family
    fill(family, group="host")
    task = crawl.pop().task
    crawl.rate_limited(task, 30, scope=scope)
    assert [each.pop().task for each in family] == [None] * 3
    clock.advance(29.999)
    assert [each.pop().task for each in family] == [None] * 3
    clock.advance(0.051)
    popped = [each.pop().task for each in (web, crawl, head, web, crawl, head)]
    clock.advance(0.05)
    popped += [each.pop().task for each in (web, crawl, head, web, crawl, head)]
    probes = [each for each in popped if each]
    assert len(probes) == 1
    owner = (web, crawl, head, web, crawl, head)[popped.index(probes[0]) % 6]
    assert owner.ack(probes[0])
    assert sum(each.pop().task is not None for each in family) >= 1


def test_an_opening_reaches_all(family, clock):
    """A group that is opened in one queue runs in the others, whose consumers are woken."""
    head, _, web = family
    fill(family, group="host")
    head.delay_group("host", 600)
    assert [each.pop().task for each in family] == [None] * 3
    for each in family:
        look(each, "-")
    web.delay_group("host", 0)
    assert all(each._redis.zscore(f"dpq:{each.queue_name}:wake", "w") == 0 for each in family[1:])
    assert all(each.pop().task for each in family)


def test_a_queue_that_joins_later_is_told_too(family, redis, queue_name, clock):
    """A client learns of a new queue of the family at its next pop, and then wakes it."""
    head, crawl, _ = family
    head.set_limit(concurrency=1)
    fill([head, crawl], 2)
    held = head.pop()
    name = f"{{{queue_name}}}late"
    with DPQ(redis, name, clock=clock) as late:
        late.push(1)
        assert not late.pop().task
        assert not head.pop().task
        redis.delete(f"dpq:{name}:wake")
        assert head.ack(held.task)
        assert redis.zscore(f"dpq:{name}:wake", "w") == 0
        late.drop()


def test_a_caller_and_queues_take_turns(family, clock):
    """A caller that waits gets its unit at its turn, and no queue that waits is passed over."""
    head, crawl, web = family
    head.set_limit(4, 1)
    fill([crawl, web], 12)
    asker, granted = Asker(head, None, timeout=60), []
    for _ in range(80):  # 4 s, in the steps of a turn: the callers may have one each
        for name, taken in (
            ("crawl", lambda: crawl.pop().task),
            ("crawl", lambda: crawl.pop().task),
            ("web", lambda: web.pop().task),
            ("asker", lambda asker=asker: asker.ask().code == 1),
        ):
            if taken():
                granted.append(name)
                asker = Asker(head, None, timeout=60) if name == "asker" else asker
        clock.advance(0.05)
    assert len(granted) == 16
    assert min(granted.count(name) for name in ("crawl", "web", "asker")) >= 4


def test_a_permit_counts_for_all(family, clock):
    """A unit that `acquire` takes in one queue is taken from all."""
    head, _, web = family
    head.set_limit(4, 1)
    fill(family)
    assert Asker(web, None, timeout=0).ask().code == 1
    assert [each.pop().task for each in family] == [None] * 3
    clock.advance(0.25)
    assert sum(each.pop().task is not None for each in family) == 1


def test_a_consumer_does_the_upkeep_of_the_family(family, clock):
    """A lease of a queue whose consumers are gone ends, if another queue has a consumer."""
    head, crawl, _ = family
    head.set_limit(concurrency=1)
    fill(family)
    held = crawl.pop(visibility=10).task
    clock.advance(12)
    assert head.pop().task
    assert crawl.get(held.id).state == "ready"
    assert crawl.stats().expired_leases == 1


def test_limits_read_the_same_everywhere(family):
    """Each queue shows the limits of the family."""
    family[1].set_limit(4, 1)
    family[2].set_limit(7, 1, group="host")
    rules = [[(state.group, state.rules) for state in each.limits()] for each in family]
    assert rules == [[(None, "0|4 1000 1"), ("host", "0|7 1000 1")]] * 3
    family[0].clear_limit(group="host")
    assert all(len(each.limits()) == 1 for each in family)


def test_lost_limits_come_back(family, redis, queue_name):
    """No queue of a family runs without the limits that are lost: they come back first."""
    family[1].set_limit(4, 1, group="host")
    fill(family, group="host")
    redis.delete(f"dpq:{{{queue_name}}}:limits")
    assert [each.pop().task is not None for each in family] == [True, False, False]


@pytest.mark.parametrize("name", ["{a}", "{}b", "a{b}", "{a}{b}", "{a", "a}", "{a}b}"])
def test_braces_stand_before_the_name(redis, name):
    """Braces are refused anywhere else in a name."""
    with pytest.raises(ConfigurationError, match="follows the limits"):
        DPQ(redis, name)


def test_a_family_is_bounded(redis, queue_name):
    """A family has 16 queues at most."""
    queues = [DPQ(redis, f"{{{queue_name}}}{n}") for n in range(16)]
    for each in queues[:15]:
        each.push(1)
    with pytest.raises(ConfigurationError, match=r"16 queues, the most.*drop\(\)") as refused:
        queues[15].push(1)
    assert repr(queues[3].queue_name) in str(refused.value)
    queues[3].drop()
    queues[15].push(1)
    for each in queues:
        each.drop()
    DPQ(redis, queue_name).drop()


def planted(family):
    """Let each queue of a family hold four leases, two of them of a group; all of them count."""
    family[0].set_limit(concurrency=40)
    family[0].set_limit(concurrency=40, group="host")
    fill(family, 2)
    fill(family, 2, group="host")
    return [each.pop_many(4) for each in family]


def tracked(redis, family):
    """All leases of a family that count."""
    entries = redis.zrange(f"dpq:{{{family[0].queue_name}}}:tracked", 0, -1)
    return {entry for entry in entries if entry != b"\t" and b"\x0c" not in entry}


def found(q):
    return {(each.kind, each.subject) for each in q.check()}


@pytest.mark.damaged
def test_a_lease_of_no_queue_is_found_by_each(family, redis, queue_name):
    """Entries whose task is gone, or does not run, are mended; no other entry is touched."""
    tasks = planted(family)
    sound = tracked(redis, family)
    assert len(sound) == 3 * 6
    waiting = family[1].push("not popped")
    wrong = {"\tgone", "host\tgone", f"\t{waiting}", f"other\t{tasks[2][0].id}"}
    left = f"\x0c0000000000000001 dpq:{{{queue_name}}}left:conf "
    for mender in family:
        redis.zadd(f"dpq:{{{queue_name}}}:tracked", dict.fromkeys(wrong | {left}, 0))
        expected = {("lease that has ended", entry) for entry in wrong}
        assert [found(each) for each in family] == [expected] * 3
        assert {(each.kind, each.subject) for each in mender.repair()} == expected
        assert tracked(redis, family) == sound
        assert [each.check() for each in family] == [[]] * 3


@pytest.mark.damaged
def test_a_lease_that_is_not_counted_is_found_by_its_queue(family, redis, queue_name):
    """A running task whose entries are lost counts again, in the group and in the family."""
    tasks = planted(family)
    sound = tracked(redis, family)
    for index, each in enumerate(family):
        [task, *_] = [task for task in tasks[index] if task.group]
        lost = [f"\t{task.id}", f"host\t{task.id}"]
        assert redis.zrem(f"dpq:{{{queue_name}}}:tracked", *lost) == 2
        damage = [problem.subject for problem in each.check()]
        assert damage == [task.id] * 2
        assert [other.check() for other in family if other is not each] == [[]] * 2
        assert len(each.repair()) == 2
        assert tracked(redis, family) == sound


@pytest.mark.damaged
def test_a_check_knows_queues_that_joined_later(family, redis, queue_name, clock):
    """A repair of a client that knew fewer queues leaves the leases of the others alone."""
    planted(family)
    sound = tracked(redis, family)
    old = family[0]
    assert old.check() == []
    with DPQ(redis, f"{{{queue_name}}}late", clock=clock) as late:
        late.push(1)
        late.pop()
        assert old.repair() == []
        assert tracked(redis, family) > sound
        late.drop()
    assert tracked(redis, family) == sound


@pytest.mark.damaged
@pytest.mark.parametrize("way", ["repair", "pop"])
@pytest.mark.parametrize("copy", [True, False], ids=["copied", "lost"])
def test_a_lost_list_of_queues_comes_back(family, redis, queue_name, clock, way, copy):
    """The head lists the queues again: from its copy, else each that is repaired or popped."""
    planted(family)
    sound = tracked(redis, family)
    conf = f"dpq:{{{queue_name}}}:conf"
    listed = redis.hget(conf, "family")
    redis.hdel(conf, "family")
    if not copy:
        redis.hdel(f"dpq:{{{queue_name}}}:stats", "kept.family")
    anew = [DPQ(redis, each.queue_name, clock=clock) for each in family]
    kind = "settings lost" if copy else "not in its family"
    assert all(kind in {each.kind for each in q.check()} for q in anew[1:])
    for each in anew[1:2] if copy else anew[1:]:
        each.repair() if way == "repair" else each.pop()
    assert set(redis.hget(conf, "family").split(b"\n")) == set(listed.split(b"\n"))
    if not copy:  # a queue that is repaired before the others are listed counts only its own leases
        for each in anew:
            each.repair()
    assert tracked(redis, family) == sound
    for each in anew:
        assert each.check() == []
        each.close()


def test_a_wait_does_not_make_a_dropped_queue(family, redis, queue_name):
    """A consumer that asks a dropped queue of a family does not create it again."""
    crawl = family[1]
    crawl.push(1)
    assert crawl.pop().task
    DPQ(redis, crawl.queue_name).drop()
    assert crawl.pop().task is None
    assert not redis.exists(f"dpq:{crawl.queue_name}:conf")
    assert b"crawl" not in redis.hget(f"dpq:{{{queue_name}}}:conf", "family")


def test_a_drop_gives_back_what_its_tasks_held(family, redis, queue_name, clock):
    """The leases of a dropped queue end in the limits, and the others are woken at once."""
    head, crawl, web = family
    head.set_limit(concurrency=2)
    head.set_limit(concurrency=1, group="host", in_order=True)
    head.set_limit(concurrency=1, group="other")
    fill(family, 2, group="host")
    crawl.fail(crawl.pop().task, delay=60)  # it holds its group until its retry
    crawl.push(1, 9, group="other")
    crawl.rate_limited(crawl.pop().task, 1)
    clock.advance(1)
    assert crawl.pop().task.group == "other"  # the probe
    assert web.pop().task is head.pop().task is None
    redis.delete(*(f"dpq:{each.queue_name}:wake" for each in family[2:]))
    crawl.drop()
    assert tracked(redis, family) == set()
    assert redis.zscore(f"dpq:{web.queue_name}:wake", "w") == 0
    web.push(1, group="other")
    groups = [task.group for task in web.pop_many(3)]
    clock.advance(0.05)  # what was left to the dropped queue, which waited for longest
    groups += [task.group for each in (head, web, head) for task in each.pop_many(3)]
    assert sorted(groups) == ["host", "other"]


def test_a_large_drop_goes_in_steps(family, redis, queue_name):
    """Each step is bounded; if its client dies, what is left is a sound queue."""
    head, crawl, web = family
    head.set_limit(concurrency=1000)
    for each in (crawl, web):
        each.push_many(Push(n) for n in range(400))
        each.push_many(Push(n, delay=60) for n in range(150))
        assert len(each.pop_many(250)) == 250
    steps, called, reply = crawl._operations.drop(), [], None
    with suppress(StopIteration):
        while True:
            command = steps.send(reply)
            called.append(command.script.name)
            reply = crawl._session.send(once(command))
            assert all(each.check() == [] for each in family)
    assert called == ["drop", *["purge"] * 7, "drop"]
    assert not redis.keys(f"dpq:{crawl.queue_name}:*")
    assert len(tracked(redis, family)) == 250


def test_the_head_is_dropped_last(family):
    """A head with other queues is refused, by their names, and nothing changes."""
    head, crawl, web = family
    fill(family)
    with pytest.raises(ConfigurationError) as refused:
        head.drop()
    assert all(repr(each.queue_name) in str(refused.value) for each in family)
    assert head.stats().ready == 6
    crawl.drop()
    web.drop()
    head.drop()
    assert head.size() == 0


def test_a_task_that_runs_again_counts_again(family, redis, clock):
    """A lease that is extended after it was put off counts for the family."""
    planted(family)
    task = family[1].push("x", 99) and family[1].pop().task
    sound = tracked(redis, family)
    redis.zrem(f"dpq:{family[1].queue_name}:invisible", task.id)
    redis.zrem(f"dpq:{{{family[0].queue_name}}}:tracked", f"\t{task.id}")
    redis.zadd(f"dpq:{family[1].queue_name}:delayed", {task.id: clock() + 9000})
    family[1].extend(task, 5)
    assert tracked(redis, family) == sound


def test_a_drain_time_counts_the_other_queues(family, redis, queue_name, clock):
    """It is that of all tasks that are due under the limit; `low` is that of the queue alone."""
    head, crawl, web = family
    head.set_limit(60, 60)
    head.set_limit(30, 60, group="host")
    crawl.push_many(Push(n) for n in range(10))
    assert (crawl.drain().seconds, crawl.drain().low) == (9, None)
    web.push_many(Push(n) for n in range(50))
    found = crawl.drain()
    assert (found.seconds, found.low, found.high, found.backlog) == (59, 9, 59, 10)
    assert "50 tasks of other queues of its family are due as well: without them" in found.because
    head.push_many(Push(n, group="host") for n in range(300))  # more than are read one by one
    assert crawl.drain().seconds == 359
    assert web.drain().low == 49
    with DPQ(redis, f"{{{queue_name}}}late", clock=clock) as late:  # head has not heard of it
        late.push_many(Push(n, group="host") for n in range(100))
        assert head.drain().seconds == pytest.approx(2 * 399)
        late.drop()
    head.clear_limit()
    head.clear_limit("host")
    assert crawl.drain().low is None


@pytest.mark.parametrize("seed", range(3))
def test_two_queues_keep_one_limit(family, clock, seed):
    """Any order of calls in two queues keeps one window, one closing and one probe for both."""
    draw, queues = Random(seed), family[1:]
    family[0].set_limit(4, 1)
    grants, held, closed_until, probe, left = [], [], 0, None, [0, 0]
    for _ in range(300):
        i = draw.randrange(2)
        verb = draw.choice(["push", "pop", "pop", "pop", "end", "429", "tick", "tick"])
        if verb == "push":
            queues[i].push(1)
            left[i] += 1
        elif verb == "tick":
            clock.advance(draw.choice([0.001, 0.05, 0.25, 1]))
        elif verb == "pop" and (task := queues[i].pop().task):
            assert clock() >= closed_until
            assert probe is None
            grants.append(clock())
            assert sum(at > clock() - 1000 for at in grants) <= 4
            probe = task.id if closed_until else None
            closed_until = 0
            held.append((i, task))
        elif verb in ("end", "429") and held:
            i, task = held.pop(draw.randrange(len(held)))
            if verb == "429" and draw.random() < 0.3:
                queues[i].rate_limited(task, 2, scope="queue")
                closed_until, probe = max(closed_until, clock() + 2000), None
            else:
                assert queues[i].ack(task)
                left[i] -= 1
                probe = None if probe == task.id else probe
    for i, task in held:
        assert queues[i].ack(task)
        left[i] -= 1
    clock.advance(5)
    for _ in range(2000):
        clock.advance(0.05)
        for i, q in enumerate(queues):
            if task := q.pop().task:
                assert q.ack(task)
                left[i] -= 1
        if left == [0, 0]:
            break
    assert [q.size() for q in queues] == left == [0, 0]
