"""The job of one process of `dpq worker`: finds handlers and queues, runs a worker or one task."""

import asyncio
import importlib
import inspect
import logging
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import typer

from dpq import DPQ, AsyncDPQ, AsyncWorker, Context, Tasks, Worker
from dpq.cli._command import DEFAULT_QUEUE, DEFAULT_URL
from dpq.cli._progress import metered, metered_async
from dpq.cli._terminal import FAILED, Failed, LogStyle, talk
from dpq.cli.daemon import HealthSource
from dpq.limits.signals import Signal
from dpq.link.connect import open_url
from dpq.link.connect_async import open_url_async
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.types import TaskFunction
from dpq.worker.base import WorkerBase
from dpq.worker.handlers import Handler, awaits, check_result, finder, functions_of

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """The job of one process; `url` and `queues` are empty if none was named."""

    target: str
    url: str | None
    queues: list[str]
    settings: dict[str, Any]
    drain: bool
    quiet: bool
    on_beat: Callable[[], None] | None = None
    log: LogStyle = "text"
    source: HealthSource | None = None

    def words(self, verbose: int, *, quiet: bool) -> list[str]:
        """Make the command of a child for this job, without the URL, which may hold a password."""
        words = [*["-v"] * verbose, "worker", self.target]
        words += (f"--queue={name}" for name in self.queues)
        given = {name.replace("_", "-"): value for name, value in self.settings.items()}
        words += (f"--{name}={value}" for name, value in given.items() if value is not None)
        return [*words, f"--log={self.log}"] + ["--drain"] * self.drain + ["--quiet"] * quiet


def work(job: Job) -> int:
    """Do a job in this process, to its end; return the exit code."""
    handlers = load(job.target)
    if is_async(handlers):
        asyncio.run(_run_async(job, handlers))
        return 0
    return FAILED if _run(job, handlers).given_back else 0


def _run(job: Job, handlers: Any) -> WorkerBase[Any]:
    with ExitStack() as stack:
        queues = open_queues(job, handlers, stack)
        made = Worker(queues, handlers, **job.settings)
        _begin(made, job)
        with metered(queues) if job.drain and not job.quiet else nullcontext():
            made.run(until_empty=job.drain)
        return made


async def _run_async(job: Job, handlers: Any) -> None:
    async with AsyncExitStack() as stack:
        queues = await open_queues_async(job, handlers, stack)
        made = AsyncWorker(queues, handlers, **job.settings)
        _begin(made, job)
        async with metered_async(queues) if job.drain and not job.quiet else nullcontext():
            await made.run(until_empty=job.drain, signals=True)
    if made.given_back or made._runner.hung:  # asyncio would wait for what it cannot cancel
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(FAILED if made.given_back else 0)


def open_queues(job: Job, handlers: Any, stack: ExitStack) -> list[DPQ[Any]]:
    """Open the queues of a job, and give the first to its handlers."""

    def connect() -> Any:
        return stack.enter_context(closing(open_url(job.url or DEFAULT_URL))).client

    return [stack.enter_context(each) for each in _queues(job, handlers, DPQ, connect)]


async def open_queues_async(job: Job, handlers: Any, stack: AsyncExitStack) -> list[AsyncDPQ[Any]]:
    """Open the queues of a job as `open_queues` does."""

    def connect() -> Any:
        opened = open_url_async(job.url or DEFAULT_URL)
        stack.push_async_callback(opened.aclose)
        return opened.client

    queues = _queues(job, handlers, AsyncDPQ, connect)
    return [await stack.enter_async_context(each) for each in queues]


def _queues(job: Job, handlers: Any, kind: Any, connect: Callable[[], Any]) -> list[Any]:
    """Make the queues: on the client of a `Tasks`, unless it has no queue, or a server is named."""
    own = handlers.queue if isinstance(handlers, Tasks) else None
    names = job.queues or [own.queue_name if own else DEFAULT_QUEUE]
    if own is None or job.url is not None:
        client = connect()
        queues = [kind(client, name) for name in names]
    elif isinstance(own, kind):
        queues = [own if name == own.queue_name else kind(own.redis, name) for name in names]
    else:
        raise ConfigurationError(
            f"{job.target!r} is async, but its queue is not: name the server with --url or DPQ_URL"
        )
    if isinstance(handlers, Tasks) and own is None:
        handlers.queue = queues[0]  # so that its tasks can push others
    return queues


def _begin(made: WorkerBase[Any], job: Job) -> None:
    made._on_beat = job.on_beat
    if job.source:
        job.source.ask = made.health
    names = ", ".join(queue.queue_name for queue in made.queues)
    kind = type(made).__name__
    log.info(
        "%s: %s of %s on %s, %d at once",
        *(made.name, kind, job.target, names, made.concurrency),
        extra=fields("worker_begins", worker=made.name, count=made.concurrency),
    )


def run_task(job: Job, task_id: str, *, force: bool) -> None:
    """Run the handler of a task here, and tell how it ended; fail if it may not run."""
    handlers, errors = load(job.target), list[Exception]()
    try:
        if is_async(handlers):
            asyncio.run(_run_one_async(job, handlers, task_id, force, errors))
        else:
            _run_one(job, handlers, task_id, force, errors)
    except Exception as raised:
        if raised not in errors:
            raise
    if not errors:
        talk(f"finished {task_id}")
    elif isinstance(errors[0], Signal):
        talk(f"{task_id}: {error_line(errors[0])}")
    else:
        talk("".join(traceback.format_exception(errors[0])).rstrip())
        raise typer.Exit(FAILED)


@contextmanager
def _noted(errors: list[Exception]) -> Iterator[None]:
    """Note the error of a handler."""
    try:
        yield
    except Exception as error:
        errors.append(error)
        raise


def _run_one(job: Job, handlers: Any, task_id: str, force: bool, errors: list[Exception]) -> None:
    """Run the handler of a task in this thread, under a lease."""
    with ExitStack() as stack:
        queue = open_queues(job, handlers, stack)[0]
        with queue.lease(id=task_id, force=force) as task:
            if task is None:
                _refuse(task_id, queue.why(task_id))
            context = Context(queue, task, bool)
            try:
                with _noted(errors):
                    handler, args = _handler(handlers, context, blocking=True)
                    check_result(handler, handler.call(*args))
            finally:
                if context.told:
                    queue.spent(task, context.told)


async def _run_one_async(
    job: Job, handlers: Any, task_id: str, force: bool, errors: list[Exception]
) -> None:
    async with AsyncExitStack() as stack:
        queue = (await open_queues_async(job, handlers, stack))[0]
        async with queue.lease(id=task_id, force=force) as task:
            if task is None:
                _refuse(task_id, await queue.why(task_id))
            context = Context(queue, task, bool)
            try:
                with _noted(errors):
                    handler, args = _handler(handlers, context, blocking=False)
                    result = handler.call(*args)
                    check_result(handler, await result if inspect.isawaitable(result) else result)
            finally:
                if context.told:
                    await queue.spent(task, context.told)


def _handler(handlers: Any, context: Context[Any], *, blocking: bool) -> tuple[Handler, Any]:
    handler = finder(handlers, blocking=blocking)(context.task)
    return handler, (context.task, context) if handler.takes_context else (context.task,)


def _refuse(task_id: str, why: str) -> NoReturn:
    raise Failed(f"task {task_id} cannot run now: {why}")


# Handlers by their names

NAMES_SHOWN = 10  # in an error: enough to see a typing error


def load(target: str) -> Any:
    """Import a module, also from the current directory, and find the named object in it."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise ConfigurationError(f"{target!r} names no handlers: write package.module:name")
    found: Any = _import(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:  # it may come from another object, such as one that found asks
            there = _list(_handlers_in(found)) or "no handler"
            said = f"{target!r}: {module_name!r} has no {name!r}; it has {there}"
            raise ConfigurationError(said) from None
    if isinstance(found, TaskFunction):
        said = f"{target!r} is a single task: name the Tasks object that it belongs to"
        raise ConfigurationError(said)
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            said = f"there is no module {error.name!r}; {_modules_beside(error.name)}"
            raise ConfigurationError(said) from None
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
