"""`package.module:name` -> the handlers that a worker runs, and their kind, blocking or asyncio.

`dpq worker` calls it. If a name does not exist, the usage error lists the names that do.
"""

import importlib
import inspect
import logging
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dpq import AsyncDPQ, Tasks
from dpq.cli._terminal import talk
from dpq.model.errors import ConfigurationError
from dpq.types import TaskFunction
from dpq.worker.handlers import awaits, functions_of

log = logging.getLogger(__name__)

NAMES_SHOWN = 10
"""Names that an error lists: enough to see a typing error."""


def load(target: str) -> Any:
    """Import a module, also from the current directory, and find the named object in it."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise ConfigurationError(f"{target!r} names no handlers: write package.module:name")
    found: Any = _import(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            there = _list(_handlers_in(found)) or "no handler"
            raise ConfigurationError(
                f"{target!r}: {module_name!r} has no {name!r}; it has {there}"
            ) from None
    if isinstance(found, TaskFunction):
        raise ConfigurationError(
            f"{target!r} is a single task: name the Tasks object that it belongs to"
        )
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"there is no module {error.name!r}; {_modules_beside(error.name)}"
            ) from None
        fault: BaseException = error
    except (Exception, SystemExit) as error:  # the module of the user may raise any error
        fault = error
    talk("".join(traceback.format_exception(fault)).rstrip())
    raise ConfigurationError(f"module {name!r} cannot be imported: {fault!r}") from fault


def _modules_beside(name: str) -> str:
    package = sys.modules.get(name.rpartition(".")[0])
    paths = [str(Path.cwd())] if package is None else list(getattr(package, "__path__", ()))
    names = _list(module.name for module in pkgutil.iter_modules(paths)) or "none"
    return f"modules in {paths[0] if paths else package!r}: {names}"


def _handlers_in(holder: Any) -> Iterable[str]:
    """List the public names that may be handlers."""
    for name, value in vars(holder).items() if hasattr(holder, "__dict__") else ():
        own = getattr(value, "__module__", None) == getattr(holder, "__name__", None)
        function = inspect.isroutine(value) and own
        if name[0] != "_" and (function or isinstance(value, Mapping | Tasks)):
            yield name


def _list(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:NAMES_SHOWN]) + ", ..." * (len(ordered) > NAMES_SHOWN)


def is_async(handlers: Any) -> bool:
    """Return True if handlers need an `AsyncWorker`: one of them is async, or their queue is."""
    if isinstance(handlers, Tasks) and isinstance(handlers.queue, AsyncDPQ):
        return True
    kinds = {awaits(function) for function in functions_of(handlers)}
    if len(kinds) == 2:
        log.warning("some handlers are async: while one that is not async runs, all others wait")
    return True in kinds
