"""models: frozen data without a connection inside."""

import pytest
from kit.scripted import a_task
from pydantic import ValidationError

from dpq import Task
from dpq.types import DeadTask, Problem, QueueStats

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
