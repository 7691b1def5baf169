"""What the tests of the scripts share: a look at what is stored, and raw calls.

After each test that uses `q` its `check()` must find nothing, unless the test is marked `damaged`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from kit.records import full_record, read_record
from redis import Redis

from dpq import DPQ, Task
from dpq.script.assembly import script
from dpq.script.keys import PARTS, key_of


class Probe:
    """Raw calls to the scripts of one queue, and its data as it is stored."""

    def __init__(self, redis: Redis, q: DPQ) -> None:
        self.redis = redis
        self.q = q

    def key(self, part: str) -> str:
        return key_of(self.q.queue_name, part)

    def call(self, name: str, *args: Any) -> Any:
        """Run a script with the keys that its header declares."""
        called = script(name)
        keys = [self.key(part) for part in called.parts]
        return self.redis.eval(called.text, len(keys), *keys, *args)

    def record(self, task_id: str) -> dict[str, str]:
        """The stored record, by the names of docs/storage.md."""
        return read_record(self.redis.hget(self.key("meta"), task_id))

    def damage(self, task_id: str, field: str, text: str) -> None:
        """Write something else into a field of the stored record."""
        self.redis.hset(
            self.key("meta"), task_id, full_record(self.record(task_id) | {field: text})
        )

    def body(self, task_id: str) -> bytes | None:
        """The stored payload, wherever it stands."""
        apart: bytes | None = self.redis.hget(self.key("payload"), task_id)
        raw = self.redis.hget(self.key("meta"), task_id) or b""
        return raw.partition(b"\n")[2] if b"\n" in raw else apart

    def lose_body(self, task_id: str) -> None:
        """Take the stored payload away, wherever it stands."""
        raw = self.redis.hget(self.key("meta"), task_id) or b""
        self.redis.hset(self.key("meta"), task_id, raw.partition(b"\n")[0])
        self.redis.hdel(self.key("payload"), task_id)

    def bodies(self) -> dict[str, bytes]:
        """All stored payloads, by the ids of their tasks."""
        apart = self.redis.hgetall(self.key("payload"))
        inline = {
            task_id: raw.partition(b"\n")[2]
            for task_id, raw in self.redis.hgetall(self.key("meta")).items()
            if b"\n" in raw
        }
        return {task_id.decode(): body for task_id, body in {**apart, **inline}.items()}

    def stored(self) -> dict[str, Any]:
        """Everything that is stored, to compare before and after."""
        read = {
            b"zset": lambda key: self.redis.zrange(key, 0, -1, withscores=True),
            b"hash": self.redis.hgetall,
            b"string": self.redis.get,
            b"stream": self.redis.xrange,
        }
        parts = ((part, self.redis.type(self.key(part))) for part in PARTS)
        return {part: read[kind](self.key(part)) for part, kind in parts if kind != b"none"}

    def count(self, part: str) -> int:
        return int(self.redis.zcard(self.key(part)))

    def woken(self) -> bool:
        """Was a waiting consumer told to look? Takes the mark away."""
        return bool(self.redis.delete(self.key("wake")))

    def pop(self, visibility: float = 30) -> Task:
        task = self.q.pop(visibility=visibility).task
        assert task is not None, f"nothing ready: {self.q.stats()}"
        return task

    def drain(self) -> list[Any]:
        """Pop and ack all that is ready, one by one: the payloads in their order."""
        payloads = []
        while (popped := self.q.pop()).task:
            payloads.append(popped.task.payload)
            popped.on_success()
        return payloads

    def state(self, task_id: str) -> str:
        return self.q.get(task_id).state.value


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "damaged: this test breaks the stored data on purpose")


@pytest.fixture
def probe(redis: Redis, q: DPQ) -> Probe:
    return Probe(redis, q)


@pytest.fixture(autouse=True)
def nothing_broken(request: pytest.FixtureRequest) -> Iterator[None]:
    q = request.getfixturevalue("q") if "q" in request.fixturenames else None
    yield
    if q is not None and not request.node.get_closest_marker("damaged"):
        assert q.check() == []
