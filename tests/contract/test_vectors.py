"""The conformance vectors of the protocol hold on a server, and are what `make protocol` writes.

A client in another language is held to the same files: tests/contract/test_typescript.py.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from kit.tools import load_tool
from redis import Redis
from redis.exceptions import ResponseError

from dpq.protocol.scripts import script

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "clients" / "vectors").glob("*.json"))

TOOL = load_tool("vectors")


class Replay:
    """Sends the commands of a file as they stand there, to a queue of another name."""

    def __init__(self, redis: Redis, text: str, name: str) -> None:
        self.redis = redis
        self.file = json.loads(text.replace("{vectors}", f"{{{name}}}"))

    def send(self, call: dict[str, Any]) -> Any:
        """Send one call; return its reply as a file has it."""
        if "redis" in call:
            return self.redis.execute_command(*call["redis"])
        text, keys = script(call["script"]).text, self.file["keys"][call["script"]]
        sha = hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - what EVALSHA uses
        try:
            reply = self.redis.evalsha(sha, len(keys), *keys, *call["args"])
        except ResponseError as error:
            return {"error": str(error).removeprefix("ERR ")}
        return plain(reply)

    def broken(self) -> list[str]:
        """The names of the vectors whose reply is another one."""
        found = []
        for vector in self.file["vectors"]:
            for each in vector["before"]:
                self.send(each)
            reply, told = self.send(vector["command"]), vector["reply"]
            if vector["command"]["script"] == "configure":  # pairs in any order
                reply, told = ({*zip(it[::2], it[1::2], strict=True)} for it in (reply, told))
            if reply != told:
                found.append(vector["name"])
            self.redis.delete(*{key for keys in self.file["keys"].values() for key in keys})
        return found


def plain(reply: Any) -> Any:
    """A reply with texts instead of bytes."""
    if isinstance(reply, list):
        return [plain(each) for each in reply]
    return reply.decode() if isinstance(reply, bytes) else reply


@pytest.fixture
def load(redis: Redis) -> None:
    """The server knows the scripts by their hashes."""
    for name in {name for file in FILES for name in json.loads(file.read_text())["keys"]}:
        redis.script_load(script(name).text)


@pytest.mark.usefixtures("load")
def test_each_reply_is_that_of_its_vector(redis, queue_name):
    """Each command, sent by EVALSHA after the calls before it, gets the reply that the file has."""
    assert len(FILES) >= 8
    for file in FILES:
        assert Replay(redis, file.read_text("utf-8"), queue_name).broken() == [], file.name


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('spent",\n      "before": [', 'spent",\n      "before": [], "unread": ['),
        ("1700000000000001", "1700000000000002"),  # a token
        ('"reply": -13', '"reply": -1'),
    ],
    ids=["calls before", "an argument", "a reply"],
)  # fmt: skip
def test_a_wrong_vector_is_seen(redis, queue_name, old, new):
    """A file in which one thing is wrong does not hold."""
    text = (ROOT / "clients" / "vectors" / "fail.json").read_text("utf-8")
    assert old in text
    assert Replay(redis, text.replace(old, new), queue_name).broken()


@pytest.mark.parametrize("file", TOOL.VECTORS)
def test_the_vectors_are_made_of_this_code(redis, queue_name, file):
    """DPQ writes the same commands, gets the same replies and reads them as the file says."""
    there = (TOOL.FOLDER / f"{file}.json").read_text("utf-8")
    assert TOOL.made(redis, file, queue_name) == there, "run `make protocol`"


def test_no_file_is_left_over():
    """Each file is one that the program writes."""
    assert [file.stem for file in FILES] == sorted(TOOL.VECTORS)
