"""The settings; for development only."""

import os

SECRET_KEY = "only for this example"  # noqa: S105
DEBUG = True
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["dpq.django", "shop"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DB", "shop.sqlite3"),
    }
}
DPQ = {"URL": os.environ.get("DPQ_URL", "embedded:./orders"), "QUEUE": "shop"}
