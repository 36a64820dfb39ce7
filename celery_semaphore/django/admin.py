"""Show a live page for each semaphore and each key in the admin, with an operator's actions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from ..core.claim import HIGHEST
from ..core.key import is_resource_name, semaphore_of
from ..errors import SemaphoreError, StoreUnavailable, UnknownSemaphore
from ..ops.inspector import Inspector
from . import pages
from .actions import ACTIONS, Action
from .models import Semaphore
from .project import inspector, problem
from .text import shown as printable

logger = logging.getLogger(__name__)

PageContext = Callable[[Inspector], dict[str, Any]]


@admin.register(Semaphore)
class SemaphoreAdmin(admin.ModelAdmin):  # type: ignore[misc]
    """Shows semaphores of the store; only their history comes from the database."""

    def get_urls(self) -> list[Any]:
        act = path(
            "<path:object_id>/do/<slug:name>/",
            self.admin_site.admin_view(self.action_view),
            name="celery_semaphore_semaphore_do",
        )
        return [act, *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Semaphore | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Semaphore | None = None) -> bool:
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Semaphore:
        if not is_resource_name(object_id):  # one address for each, so one history
            raise Http404
        return Semaphore(resource=object_id)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self._refuse_stranger(request)
        if text := request.GET.get("q", "").strip():
            return self._found(request, text)
        context = {"title": "Semaphores"}
        return self._seen(
            request, "semaphores", context, lambda i: pages.semaphores(i, *_part(request))
        )

    def _found(self, request: HttpRequest, text: str) -> HttpResponse:
        context = {"title": f"Search for {printable(text)}", "text": text}
        return self._seen(request, "found", context, lambda i: pages.found(i, text))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self._refuse_stranger(request)
        shown = self.get_object(request, unquote(object_id))
        context = {
            "title": f"Semaphore {shown}",
            "object": shown,
            "may": {each: self._may(request, action) for each, action in ACTIONS.items()},
            "whole": Semaphore(resource=semaphore_of(shown.resource)),
            "highest": HIGHEST,
        }
        return self._seen(
            request,
            "semaphore",
            context,
            lambda i: pages.semaphore(i, shown.resource, *_part(request)),
        )

    def action_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Run an action, or ask for a confirmation first."""
        self._refuse_stranger(request)
        action, shown = ACTIONS.get(name), self.get_object(request, unquote(object_id))
        if action is None:
            raise Http404
        if not self._may(request, action):
            raise PermissionDenied
        if request.method == "POST":
            self._act(request, shown, action)
        elif action.asks_first:
            return self._asked(request, shown, action)
        return HttpResponseRedirect(self._address(shown))

    def _asked(self, request: HttpRequest, shown: Semaphore, action: Action) -> HttpResponse:
        """Ask for a confirmation."""
        about, waiting, of_keys = request.GET.getlist(action.field), None, False
        why_not = "nothing is selected." if action.field and not about else ""
        if not action.field:
            try:
                seen = inspector()
                waiting, of_keys = (
                    seen.waiting(shown.resource),
                    not seen.has_no_keys(shown.resource),
                )
                of_keys = of_keys and shown.resource == semaphore_of(shown.resource)
            except SemaphoreError as error:
                why_not = str(error)
        if why_not:
            messages.error(request, printable(f"Not done: {why_not}"))
            return HttpResponseRedirect(self._address(shown))
        context = {"title": action.asks_first, "object": shown, "action": action}
        return self._page(
            request, "confirm", context | {"about": about, "waiting": waiting, "of_keys": of_keys}
        )

    def _act(self, request: HttpRequest, shown: Semaphore, action: Action) -> None:
        try:
            semaphores = inspector()
            semaphores.check(shown.resource)
            done = printable(action.do(semaphores, shown.resource, request.POST))
        except StoreUnavailable as error:
            # The action may have taken effect and only its answer was lost, so it is logged, too.
            done = f"{action.permission}: the store did not answer, so it may or may not have taken effect."
            messages.error(request, f"{done} ({error})")
        except SemaphoreError as error:
            messages.error(request, printable(f"Not done: {error}"))
            return
        except Exception as error:
            # A purge that ended some tasks before a result could not be stored must be in the history, too.
            logger.exception("%s of semaphore %s failed", action.permission, shown)
            done = f"{action.permission}: it failed, and may have taken effect in part."
            messages.error(request, printable(f"{done} ({type(error).__name__}; the log has more)"))
        else:
            messages.success(request, done)
        self.log_change(request, shown, done)

    def _seen(
        self, request: HttpRequest, name: str, context: dict[str, Any], context_of: PageContext
    ) -> HttpResponse:
        """Render a page, or only its live part."""
        live, status = "live" in request.GET, 200
        try:
            context |= context_of(inspector()) | {"note": problem()}
        except StoreUnavailable as error:
            context["problem"], status = f"The store is out of reach: {error}", 503
        except UnknownSemaphore as error:
            context["problem"], status = str(error), 404
        except SemaphoreError as error:
            context["problem"], status = str(error), 500
        if live:
            return self._page(request, f"_{name}", context)
        return self._page(request, name, context, status)

    def _page(
        self, request: HttpRequest, name: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        request.current_app = self.admin_site.name
        everywhere = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        template = f"celery_semaphore/{name}.html"
        return TemplateResponse(request, template, everywhere, status=status)

    def _refuse_stranger(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _may(self, request: HttpRequest, action: Action) -> bool:
        return bool(request.user.has_perm(f"celery_semaphore.{action.permission}_semaphore"))

    def _address(self, shown: Semaphore) -> str:
        name = f"{self.admin_site.name}:celery_semaphore_semaphore_change"
        return str(reverse(name, args=[quote(shown.resource)], current_app=self.admin_site.name))


def _part(request: HttpRequest) -> tuple[str, str]:
    """Return the number of the page, and what its rows are sorted by."""
    return request.GET.get("p", "1"), request.GET.get("o", "")
