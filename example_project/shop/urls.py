from django.contrib import admin
from django.urls import path

from . import views

urlpatterns = [
    path("", views.home, name="home"),
    path("export/<int:tenant_id>/", views.export, name="export"),
    path("order/", views.order, name="order"),
    path("admin/", admin.site.urls),
]
