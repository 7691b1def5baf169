"""Names that a module gives, but that another one defines: loaded at their first use.

`model/task.py` does so with pydantic data: an import of `DPQ` does without pydantic.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def late(module: str, home: str, *names: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module, which loads names from their home."""

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    return load
