"""`dpq worker --task`: takes one task by its id, and runs its handler here, once: for debugging."""

import asyncio
import traceback
from contextlib import AsyncExitStack, ExitStack
from inspect import isawaitable
from typing import Any, NoReturn

import typer

from dpq import Context
from dpq.cli._job import Job, open_queues, open_queues_async
from dpq.cli._target import is_async, load
from dpq.cli._terminal import FAILED, Failed, talk
from dpq.limits.signals import Signal
from dpq.model.validation import error_line
from dpq.worker.handlers import Handler, check_result, finder


def run_task(job: Job, task_id: str, *, force: bool) -> None:
    """Run the handler of a task here, and tell how it ended; fail if it may not run."""
    handlers = load(job.target)
    if is_async(handlers):
        error = asyncio.run(_run_async(job, handlers, task_id, force))
    else:
        error = _run(job, handlers, task_id, force)
    _tell(task_id, error)


def _tell(task_id: str, error: Exception | None) -> None:
    if error is None:
        talk(f"finished {task_id}")
    elif isinstance(error, Signal):
        talk(f"{task_id}: {error_line(error)}")
    else:
        talk("".join(traceback.format_exception(error)).rstrip())
        raise typer.Exit(FAILED)


def _run(job: Job, handlers: Any, task_id: str, force: bool) -> Exception | None:
    """Run the handler of a task in this thread, under a lease; return its error."""
    error: Exception | None = None
    with ExitStack() as stack:
        queue = open_queues(job, handlers, stack)[0]
        try:
            with queue.lease(id=task_id, force=force) as task:
                if task is None:
                    _refuse(task_id, queue.why(task_id))
                context = Context(queue, task, bool)
                try:
                    handler, args = _handler(handlers, context, blocking=True)
                    check_result(handler, handler.call(*args))
                except Exception as raised:
                    error = raised
                    raise
                finally:
                    if context.told:
                        queue.spent(task, context.told)
        except Exception as raised:
            if raised is not error:
                raise
    return error


async def _run_async(job: Job, handlers: Any, task_id: str, force: bool) -> Exception | None:
    """Run the handler of a task in the event loop, as `_run` does."""
    error: Exception | None = None
    async with AsyncExitStack() as stack:
        queue = open_queues_async(job, handlers, stack)[0]
        try:
            async with queue.lease(id=task_id, force=force) as task:
                if task is None:
                    _refuse(task_id, await queue.why(task_id))
                context = Context(queue, task, bool)
                try:
                    handler, args = _handler(handlers, context)
                    result = handler.call(*args)
                    check_result(handler, await result if isawaitable(result) else result)
                except Exception as raised:
                    error = raised
                    raise
                finally:
                    if context.told:
                        await queue.spent(task, context.told)
        except Exception as raised:
            if raised is not error:
                raise
    return error


def _handler(
    handlers: Any, context: Context[Any], *, blocking: bool = False
) -> tuple[Handler, tuple[Any, ...]]:
    """Find the handler of a task, and its arguments."""
    handler = finder(handlers, blocking=blocking)(context.task)
    return handler, (context.task, context) if handler.takes_context else (context.task,)


def _refuse(task_id: str, why: str) -> NoReturn:
    raise Failed(f"task {task_id} cannot run now: {why}")
