"""The views: take an order, and tell what has become of it."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from dpq.django import push_on_commit, task_response
from shop.models import Order
from shop.tasks import deliver


@csrf_exempt
@require_POST
def take(request: HttpRequest) -> HttpResponse:
    """Take an order; it is delivered only if it is saved."""
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        push = push_on_commit(deliver, order.id, priority=3, key=f"order {order.id}")
    Order.objects.filter(id=order.id).update(task_id=push.task_id)
    location = reverse("order", args=[order.id])
    return JsonResponse({"order": order.id}, status=202, headers={"Location": location})


@require_GET
def order(request: HttpRequest, order_id: int) -> HttpResponse:
    """Tell the state of an order, or what its delivery has returned."""
    return task_response(get_object_or_404(Order, id=order_id).task_id)
