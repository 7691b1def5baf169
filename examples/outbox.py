"""Push tasks within the transactions of a database: none is lost, and none comes twice.

python examples/outbox.py [shop.db] [embedded:./queue]
python examples/outbox.py postgresql://localhost/shop redis://localhost:6379    needs psycopg

An order and its task are written in one transaction: the task as a row of the table `outbox`. A
relay pushes such rows. docs/transactions.md says why it may die at any line.
"""

import importlib
import json
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpq import DPQ, ConfigurationError, PayloadError, Push, TaskNotFoundError

TEN_YEARS = 315_360_000  # seconds: a pushed task is held until its row says that it was pushed
BATCH = 100
ASIDE = 2  # `held` of a row that no queue takes; its error stands beside it
OWN = {"key", "delay", "at", "every", "cron", "expires_in", "on_duplicate"}


class Outbox:
    """The table of tasks to push, of one connection that commits each statement by itself."""

    def __init__(self, db: Any, *, postgres: bool = False) -> None:
        """Take a connection of sqlite3, or of psycopg, and make the table."""
        self.db, self._postgres = db, postgres
        serial = "SERIAL PRIMARY KEY" if postgres else "INTEGER PRIMARY KEY AUTOINCREMENT"
        self.run(
            f"CREATE TABLE IF NOT EXISTS outbox (number {serial}, id TEXT NOT NULL UNIQUE, "
            "push TEXT NOT NULL, held INTEGER NOT NULL DEFAULT 0, error TEXT)"
        )

    def run(self, sql: str, *values: object) -> Any:
        """Run one statement."""
        return self.db.execute(sql.replace("?", "%s") if self._postgres else sql, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the body does, all or nothing; only one transaction writes at a time."""
        self.run("BEGIN" if self._postgres else "BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be gone, and the transaction with it
                self.run("ROLLBACK")
            raise

    def add(self, payload: object, **options: object) -> str:
        """Add a task within the caller's transaction; the options are those of `push`."""
        if wrong := set(options) - (set(Push._fields) - OWN):
            raise ConfigurationError(f"a row of the outbox has no {', '.join(sorted(wrong))}")
        key = str(uuid.uuid4())
        text = json.dumps({"payload": payload, **options})
        self.run("INSERT INTO outbox (id, push) VALUES (?, ?)", key, text)
        return key

    def relay(self, q: DPQ[Any]) -> int:
        """Push up to 100 rows, the oldest first; return their number. Call it until that is 0."""
        with self.transaction():
            rows = self._rows(0)
            self._push(q, rows)
        rows = self._rows(1)
        for key, _ in rows:
            # Another relay has let it go, and it is done or runs.
            with suppress(TaskNotFoundError, ConfigurationError):
                task = q.get(key=key)
                if task.deliveries == 0:
                    q.update(task.id, delay=0)
        for key, _ in rows:
            self.run("DELETE FROM outbox WHERE id = ?", key)
        return len(rows)

    def _push(self, q: DPQ[Any], rows: list[tuple[str, str]]) -> None:
        """Push rows and mark them; a row that the queue refuses is put aside with its error."""
        named = [Push[Any](**json.loads(text), key=key, delay=TEN_YEARS) for key, text in rows]
        try:
            q.push_many(named)
        except (ConfigurationError, PayloadError) as error:
            if len(rows) > 1:
                for row in rows:
                    self._push(q, [row])
                return
            sql = "UPDATE outbox SET held = ?, error = ? WHERE id = ?"
            self.run(sql, ASIDE, str(error), rows[0][0])
            return
        for key, _ in rows:
            self.run("UPDATE outbox SET held = 1 WHERE id = ?", key)

    def _rows(self, held: int) -> list[tuple[str, str]]:
        sql = "SELECT id, push FROM outbox WHERE held = ? ORDER BY number LIMIT ?"
        if self._postgres and not held:  # no other relay has these rows at the same time
            sql += " FOR UPDATE SKIP LOCKED"
        return list(self.run(sql, held, BATCH).fetchall())


def connect(where: str) -> Outbox:
    """Open a database: a file of SQLite, or the address of a PostgreSQL."""
    if where.startswith("postgresql:"):
        psycopg: Any = importlib.import_module("psycopg")
        return Outbox(psycopg.connect(where, autocommit=True), postgres=True)
    return Outbox(sqlite3.connect(where, isolation_level=None))


if __name__ == "__main__":
    database, url = (*sys.argv[1:], *("shop.db", "embedded:./queue")[len(sys.argv) - 1 :])
    outbox, queue = connect(database), DPQ.from_url(url, "orders")
    outbox.run("CREATE TABLE IF NOT EXISTS orders (name TEXT)")
    for name in ("tea", "bread"):
        with outbox.transaction():  # if this fails, there is neither the order nor the task
            outbox.run("INSERT INTO orders VALUES (?)", name)
            outbox.add({"deliver": name}, priority=len(name))
    while outbox.relay(queue):  # another program may do this, in a loop
        pass
    while (popped := queue.pop()).task:
        print(f"delivers {popped.task.payload['deliver']}")
        popped.on_success()
    queue.close()
