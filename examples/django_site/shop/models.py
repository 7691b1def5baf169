"""Orders."""

from django.db import models


class Order(models.Model):
    """An order, and the task that delivers it."""

    item = models.CharField(max_length=100)
    delivered = models.BooleanField(default=False)
    task_id = models.CharField(max_length=200, default="")
