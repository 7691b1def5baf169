"""models: frozen data without a connection inside."""

import pickle
from copy import copy

import pytest
from kit.scripted import a_task
from pydantic import ValidationError

from dpq import (
    LeaseLostError,
    RateLimited,
    Reject,
    Release,
    ResultTimeoutError,
    Retry,
    Task,
)
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


@pytest.mark.parametrize("copied", [lambda each: pickle.loads(pickle.dumps(each)), copy])  # noqa: S301
@pytest.mark.parametrize(
    "error",
    [
        *(Retry(3, "x"), Release(2), Reject("no"), RateLimited(4, "queue", 503, "so")),
        *(LeaseLostError("ack", ["id"]), ResultTimeoutError("id", "q", 3)),
    ],
)
def test_an_error_or_a_signal_travels(error, copied):
    """A process pool gives it back with its text and all that it carries."""
    back = copied(error)
    assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))


def test_task_travels():
    """A task survives JSON and back, so a holder may pass it to another process."""
    assert Task.model_validate_json(TASK.model_dump_json()) == TASK
