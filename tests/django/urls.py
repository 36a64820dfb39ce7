"""The project's addresses, and a policy under which nothing inline works."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'"


def strict(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return answer
