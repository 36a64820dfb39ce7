from __future__ import annotations

from django.db import models


class Tenant(models.Model):
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    shipped_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk}"


class Export(models.Model):
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    asked_at = models.DateTimeField(auto_now_add=True)
    begun_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)
    text = models.TextField(default="")

    def __str__(self) -> str:
        return f"export {self.pk}"

    @property
    def state(self) -> str:
        if self.done_at:
            return "done"
        return "running" if self.begun_at else "waiting"
