"""The commands that `dpq.django` adds to `manage.py`."""
