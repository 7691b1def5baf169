"""The answers of Django's views about tasks, the same as those of `dpq.fastapi`."""

from contextlib import suppress

from django.http import HttpResponse

from dpq import TaskNotFoundError, TaskState
from dpq.django.queues import open_queue
from dpq.queue.ends import end_of
from dpq.views.answers import Answer, may_be_id, of_end, of_task, unknown


def task_response(
    task_id: str, timeout: float = 0, *, queue_name: str | None = None
) -> HttpResponse:
    """Answer with the end of a task, and wait for it on the server.

    The answer is a JSON object. `state` is `done`, with the `result` (200); `dead`, with the
    `reason` (200); or `unknown` (404). If the task has not ended within the timeout, the answer is
    202, with the task's state, attempt and progress.

    Args:
        task_id: The id that `push` returned.
        timeout: Seconds to wait, from 0. The wait holds a thread of the web server: keep it short.
        queue_name: The queue; None takes `QUEUE` of the setting `DPQ`.

    Raises:
        ConfigurationError: The timeout is out of its bounds, or the setting `DPQ` is wrong.
        RedisError: The server is away.
    """
    answer = _answer(task_id, timeout, queue_name) if may_be_id(task_id) else unknown(task_id)
    return HttpResponse(
        answer.body,
        status=answer.status,
        headers=answer.headers,
        content_type="application/json",
    )


def _answer(task_id: str, timeout: float, queue_name: str | None) -> Answer:
    queue = open_queue(queue_name)
    if outcome := end_of(queue, task_id, timeout):
        return of_end(task_id, outcome)
    with suppress(TaskNotFoundError):
        task = queue.get(task_id)
        if task.state is not TaskState.DEAD:
            return of_task(task)
    ended = end_of(queue, task_id, 0)  # it has ended between the two calls
    return of_end(task_id, ended) if ended else unknown(task_id)
