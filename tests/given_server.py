"""A server that somebody else runs, for `--url`: the suite is a guest there.

It leaves no key behind, touches none that was there, and uses no command that others would feel: a
test that needs one, or the server's process or files, is skipped and says so. What cannot be taken
back is that the server has DPQ's scripts in its cache. Each test looks at all keys, so one process.
"""

from typing import Any, NoReturn, Self

import pytest
from redis import Redis
from redis.exceptions import RedisError

from dpq import ConfigurationError
from dpq.link.url import explained
from dpq.model.masking import mask

FELT = {
    *(
        "CONFIG SET",
        "CONFIG RESETSTAT",
        "FLUSHALL",
        "FLUSHDB",
        "SHUTDOWN",
        "MONITOR",
        "DEBUG",
        "SWAPDB",
    ),
    *("CLIENT KILL", "CLIENT PAUSE", "SCRIPT FLUSH", "ACL SETUSER", "ACL DELUSER"),
}
"""Commands that others would feel."""

NAMED = 5


def _owned(what: str) -> NoReturn:
    pytest.skip(f"needs a server of its own: {what}")


class Given:
    """Stands for a `Server`.

    Attributes:
        url: As it was given; it may hold a password.
        shown: The URL without its secrets.
        label: Family and version, as in the ids of tests.
        there: The keys that were there before.
    """

    def __init__(self, url: str, client: Redis) -> None:
        self.url, self.shown, self._client = url, mask(url), client
        info = client.info("server")
        family = "valkey" if "valkey_version" in info else "redis"
        version = info.get("valkey_version", info["redis_version"])
        self.label = f"{family}-{version.rpartition('.')[0]}"
        self.there: set[bytes] = set(client.keys("*"))

    @classmethod
    def open(cls, config: pytest.Config, url: str) -> Self:
        """Look at the server.

        Raises:
            UsageError: It cannot be reached, it holds keys, or the run has several processes.
        """
        if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError("--url: one process only, as each test looks at all keys")
        try:
            with explained(mask(url)):  # what is wrong with a URL may quote its password
                client = Redis.from_url(url)
            given = cls(url, client)
        except (RedisError, ConfigurationError) as error:
            raise pytest.UsageError(f"--url {mask(url)}: {error}") from None
        if given.there and not config.getoption("--beside-keys"):
            named = ", ".join(sorted(str(key) for key in given.there)[:NAMED])
            raise pytest.UsageError(
                f"--url {given.shown}: {len(given.there)} keys are there, such as {named}. Use an "
                "empty server or database; or --beside-keys, which leaves them alone"
            )
        return given

    def guard(self, client: Redis) -> None:
        """Let a client skip the test that sends what others would feel."""
        send = client.execute_command

        def execute_command(*words: Any, **options: Any) -> Any:
            name = " ".join(str(word) for word in words[:2]).upper()
            for felt in FELT:
                if name == felt or name.startswith(f"{felt} "):
                    _owned(felt)
            return send(*words, **options)

        client.execute_command = execute_command  # type: ignore[method-assign]
        client.monitor = lambda: _owned("MONITOR")  # type: ignore[method-assign]

    def close(self) -> None:
        """Look whether anything was left.

        Raises:
            UsageError: Keys were left behind, or are missing.
        """
        now = set(self._client.keys("*"))
        self._client.close()
        if now != self.there:
            raise pytest.UsageError(f"left: {now - self.there}, gone: {self.there - now}")

    @property
    def pid(self) -> int:
        _owned("its process")

    @property
    def binary(self) -> Any:
        _owned("its program")

    @property
    def directory(self) -> Any:
        _owned("its files")
