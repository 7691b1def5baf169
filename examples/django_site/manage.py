"""A small Django project that delivers orders with DPQ.

python examples/django_site/manage.py migrate --run-syncdb
python examples/django_site/manage.py runserver
python examples/django_site/manage.py dpq_worker --concurrency 4      beside it

curl -i localhost:8000/orders/ --data item=tea     202, with the order's Location
curl localhost:8000/orders/1/                      its state, and what its delivery has returned

DPQ_URL=redis://localhost names a server; without it the first of both programs starts one, with
./orders as data. SHOP_DB names the database, a file for SQLite.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
