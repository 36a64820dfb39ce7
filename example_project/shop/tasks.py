"""Define tasks with two limits: one that a carrier sets for all of us, and one of our own for each tenant."""

from __future__ import annotations

import http.client
import time

from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from celery_semaphore import LimitedTask

from .models import Export, Order, Tenant

PIECES = 4  # pieces of an export
PIECE = 1.0  # seconds that one piece takes


class Refused(Exception):
    """Raised if the carrier has too many callers."""


@shared_task(base=LimitedTask, semaphore="carrier", limit=5)
def ship(order_id: int) -> None:
    """Ship an order. The carrier's API rejects the sixth call at once, so at most five of these tasks run."""
    carrier = http.client.HTTPConnection(settings.CARRIER, timeout=30)
    carrier.request("GET", f"/call/order-{order_id}/shop")
    if carrier.getresponse().status != http.HTTPStatus.OK:
        raise Refused
    Order.objects.filter(pk=order_id).update(shipped_at=timezone.now())


@shared_task(base=LimitedTask, bind=True, semaphore="export", key="{tenant_id}", limit=2)
def export_orders(self: LimitedTask, export_id: int, tenant_id: int) -> None:
    """Export a tenant's orders. No tenant takes more than two processes, however often it asks."""
    Export.objects.filter(pk=export_id).update(begun_at=timezone.now())
    lines = ["order,shipped"]
    lines += [f"{o.pk},{o.shipped_at}" for o in Order.objects.filter(tenant=tenant_id)]
    for _ in range(PIECES):
        time.sleep(PIECE)  # what a large export would do
        if self.permit is not None:  # it has none when it is called directly
            self.permit.check()
    Export.objects.filter(pk=export_id).update(done_at=timezone.now(), text="\n".join(lines))


@shared_task
def take_orders(count: int = 25) -> None:
    tenants = list(Tenant.objects.all())
    with transaction.atomic():
        for n in range(count):
            order = Order.objects.create(tenant=tenants[n % len(tenants)])
            ship.delay_on_commit(order.pk)


@shared_task
def export_for_all(each: int = 3) -> None:
    with transaction.atomic():
        for tenant in Tenant.objects.all():
            for _ in range(each):
                ask_for_export(tenant)


def ask_for_export(tenant: Tenant) -> Export:
    export = Export.objects.create(tenant=tenant)
    # After the commit: a permit may be free at once, and the worker would not find the row.
    export_orders.delay_on_commit(export.pk, tenant.pk)
    return export
