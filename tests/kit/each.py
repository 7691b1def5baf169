"""One test over many values: for cheap checks, of which an item of pytest each would cost more.

@each("path", MODULES, name=module_name)
def test_of_a_module(path): ...
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(
    argument: str, values: Iterable[Any], name: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each value, and fail with the names of all values at which it fails."""
    chosen = list(values)
    assert chosen, "a test over nothing proves nothing"

    def over(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def over_all(**fixtures: Any) -> None:
            failures = []
            for value in chosen:
                try:
                    test(**{argument: value}, **fixtures)
                except Exception as failure:
                    failure.add_note(f"{argument}: {name(value)}")
                    failures.append(failure)
            if failures:
                words = f"{len(failures)} of {len(chosen)}"
                raise ExceptionGroup(words, failures)

        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name != argument]
        over_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return over_all

    return over
