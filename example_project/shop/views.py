from __future__ import annotations

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from .models import Export, Order, Tenant
from .tasks import ask_for_export, take_orders


def home(request: HttpRequest) -> HttpResponse:
    open_orders = Count("order", filter=Q(order__shipped_at=None))
    context = {
        "tenants": Tenant.objects.annotate(open=open_orders).order_by("pk"),
        "exports": Export.objects.select_related("tenant").order_by("-pk")[:12],
        "shipped": Order.objects.exclude(shipped_at=None).count(),
    }
    return render(request, "shop/home.html", context)


@require_POST
def export(request: HttpRequest, tenant_id: int) -> HttpResponse:
    ask_for_export(get_object_or_404(Tenant, pk=tenant_id))
    messages.success(request, "The export comes as soon as there is room for it.")
    return redirect("home")


@require_POST
def order(request: HttpRequest) -> HttpResponse:
    take_orders.delay(50)
    messages.success(request, "50 orders come in.")
    return redirect("home")
