"""The tasks of this app; `dpq.django` imports this module by itself."""

from dpq import Reject
from dpq.django import tasks
from shop.models import Order


@tasks.task(keep_result=600, max_attempts=5)
def deliver(order_id: int) -> dict[str, str]:
    """Deliver an order. It may run twice, so it changes nothing the second time."""
    order = Order.objects.filter(id=order_id).first()
    if order is None:
        raise Reject(f"there is no order {order_id}")
    Order.objects.filter(id=order_id).update(delivered=True)
    return {"delivered": order.item}
