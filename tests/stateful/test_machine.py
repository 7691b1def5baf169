"""Any sequence of operations leaves the queue as the model says."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from limit_machine import machine_on
from redis import Redis

from dpq.server import Server


def test_every_sequence_of_operations_agrees_with_the_model(
    server: Server, redis: Redis, queue_name: str
) -> None:
    """Whatever is called in whatever order, each answer, order, count and total is the model's."""
    run_state_machine_as_test(machine_on(redis, queue_name), settings=settings())


def test_recurring_tasks_agree_with_the_model(first_server: Server, queue_name: str) -> None:
    """So it is when half of the tasks come back, and half of the updates change their periods."""
    always = {"limited": False, "kind": {}, "recurring": True}
    with Redis.from_url(first_server.url) as redis:
        run_state_machine_as_test(
            machine_on(redis, queue_name, **always),
            settings=settings(max_examples=settings().max_examples // 2),
        )
