"""Names that a module gives, but that another one defines: loaded at their first use.

`model/task.py` does so with pydantic data: an import of `DPQ` does without pydantic.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module, which loads names from their homes in `dpq`."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(f"dpq.{home_of[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return load
