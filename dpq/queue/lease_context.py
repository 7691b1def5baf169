"""The context of `q.lease()`, whose error says what to write in place of a loop over it."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def no_loop(lease: F) -> F:
    """Let the contexts that a function makes refuse a `for`."""

    @wraps(lease)
    def made(*args: Any, **options: Any) -> Any:
        context = lease(*args, **options)
        context.__class__ = _refusing(context.__class__)
        return context

    return made  # type: ignore[return-value]


@cache
def _refusing(kind: type) -> type:
    def refuse(_: object) -> NoReturn:
        raise TypeError(
            "lease() is no loop: write `with q.lease() as task:` for one task, or "
            "`for task in q.leases():` for all; both with async for an AsyncDPQ"
        )

    return type(kind.__name__, (kind,), {"__iter__": refuse, "__aiter__": refuse})
