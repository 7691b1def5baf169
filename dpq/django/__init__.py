"""DPQ inside a Django project: named tasks, pushes on commit, a worker, results in views.

    INSTALLED_APPS = [..., "dpq.django"]
    DPQ = {"URL": "redis://localhost", "QUEUE": "shop"}

In the `tasks.py` of an app, and in its views:

    from dpq.django import push_on_commit, task_response, tasks

    @tasks.task()
    def mail(order_id: int) -> None: ...

    push_on_commit(mail, order.id, priority=3)

`manage.py dpq_worker` runs the tasks of all apps. `apps` is the app of INSTALLED_APPS, `queues` has
all else.

Source: docs/guides/django.md.
"""

from dpq.http.wire import missing_extra

try:
    import django  # noqa: F401 - the error names the way out
except ImportError as error:  # a test hides the library
    raise missing_extra("django", error) from error

from dpq.django.queues import CommitPush, open_queue, push_on_commit, task_response, tasks

__all__ = ["CommitPush", "open_queue", "push_on_commit", "task_response", "tasks"]
