"""What do connections of DPQ's own save, against the caller's client with its pool?"""

from benchmarks._harness import Bench, Result, Target, ratio, run_one
from dpq.link.connections import Connections
from dpq.script.assembly import Script, script
from dpq.script.command import Command
from dpq.script.keys import key_of

CALLS = 400  # in each slice


def measure(bench: Bench) -> list[Result]:
    text = "return 1"
    keys = tuple(key_of("nothing", part) for part in script("push").parts)
    task = ("", "0123456789ab", "10 0 17 0 1 k\t\t", b"x" * 100)
    command = Command(Script("empty", text, ()), keys, task, lambda reply: reply)
    sha, connections = bench.redis.script_load(text), Connections(bench.redis)

    def by_link() -> None:
        for _ in range(CALLS):
            connections.call_all((command,))

    def by_client() -> None:
        for _ in range(CALLS):
            bench.redis.execute_command("EVALSHA", sha, len(keys), *keys, *task)

    samples = ratio(bench, by_link, by_client, lambda: None, CALLS)
    connections.close()
    name = "an empty script with push's arguments / the same through the client"
    return [Result(name, "x", Target("at least", 1.3), *samples)]


if __name__ == "__main__":
    run_one("link")
