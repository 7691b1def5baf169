"""models: frozen data without a connection inside."""

import pytest
from kit.scripted import a_task
from pydantic import ValidationError

from dpq import DeadTask, Popped, Problem, Push, QueueStats, Task, TaskState

TASK = a_task({"a": [1]})
MODELS = [
    TASK,
    DeadTask(**vars(TASK), reason="r", attempts=1, died_at=TASK.enqueued_at),
    QueueStats(ready=0, delayed=0, invisible=0, waiting=0, dead=0),
    Problem(kind="k", subject="s"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_frozen(model):
    """Nothing that the library hands out can be changed in place."""
    name = next(iter(type(model).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(model, name, None)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_field_is_documented(model):
    """Each field of a model is explained in its docstring or its base's."""
    text = "".join(base.__doc__ or "" for base in type(model).__mro__[:-1])
    missing = [name for name in type(model).model_fields if f"{name}: " not in text]
    assert not missing


def test_task_travels():
    """A task survives JSON and back, so a holder may pass it to another process."""
    assert Task.model_validate_json(TASK.model_dump_json()) == TASK


@pytest.mark.parametrize("priority", [3, 3.0, 2**62 + 1])
def test_priority_keeps_its_type(priority):
    """The priority of a task is an int or a float, as it was pushed."""
    task = Task(**(vars(TASK) | {"priority": priority}))
    assert type(task.priority) is type(priority)
    assert task.priority == priority


def test_popped_unpacks():
    """A pop unpacks into three; of an empty queue all three are None."""
    task, on_success, set_visibility = Popped(None, None, None)
    assert task is on_success is set_visibility is None


def test_push_knows_its_arguments():
    """A misspelt argument of a Push is refused."""
    with pytest.raises(TypeError, match="prioritiy"):
        Push(payload=1, prioritiy=2)


def test_a_push_is_frozen():
    """A Push cannot be changed in place."""
    with pytest.raises(AttributeError):
        Push(payload=1).priority = 2


def test_push_defaults():
    """A Push without more is a push without more."""
    push = Push(payload=1)
    assert push._asdict() == {
        "payload": 1,
        "cost": 1,
        "priority": 0,
        "delay": 0,
        "group": None,
        "key": None,
        "on_duplicate": "keep",
        "max_attempts": None,
        "max_lapses": None,
        "expires_in": None,
        "every": None,
        "cron": None,
        "timezone": "UTC",
        "at": None,
        "visibility": None,
        "time_limit": None,
        "member": None,
        "batch": None,
        "after": None,
        "on_dead": "bury",
        "unique_for": None,
        "debounce": None,
        "debounce_max": None,
        "backoff": None,
    }


def test_states_are_their_names():
    """A state compares and prints as its name."""
    assert TaskState.READY == "ready"
    assert f"{TaskState.DEAD}" == "dead"
