"""The app `dpq.django` of INSTALLED_APPS: it imports the `tasks.py` of every app at the start."""

from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import autodiscover_modules

from dpq.django.queues import settings_read
from dpq.model.errors import ConfigurationError


class DPQConfig(AppConfig):
    """The app."""

    name = "dpq.django"
    label = "dpq"
    verbose_name = "DPQ"

    def ready(self) -> None:
        """Import the tasks of all apps; nothing is opened."""
        autodiscover_modules("tasks")
        register(check_settings)


def check_settings(**_: Any) -> list[CheckMessage]:
    """Check the settings, for `manage.py check`."""
    try:
        settings_read()
    except ConfigurationError as error:
        return [Error(str(error), id="dpq.E001")]
    return []
