"""What a process of the project needs once."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any
from unittest import mock

from celery import Celery
from celery.signals import import_modules

from celery_semaphore.core.store import Store
from celery_semaphore.settings import Settings
from celery_semaphore.testing import MemoryStore
from tests.django.conftest import occupy
from tests.django.pages import API, LIST, Login, address


def test_tasks_that_cannot_be_imported_hide_nothing(
    project: Celery, client: Login, store: Store
) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("the tables are not there yet")

    occupy(store, API, ["one:1"])
    browser = client()
    import_modules.connect(fail, sender=project)
    try:
        pages = [browser.get(page, {"live": 1}) for page in (LIST, address("api"))]
    finally:
        import_modules.disconnect(fail, sender=project)
    for page in pages:
        assert "The tasks could not be imported" in page.content.decode()
        assert "the tables are not there yet" in page.content.decode()
    assert "<code>one</code>" in pages[1].content.decode()


def test_an_import_that_failed_is_tried_again_when_asked_to_begin_anew(project: Celery) -> None:
    from celery_semaphore.django import project as here

    tried: list[str] = []

    def fail_once(**_: Any) -> None:
        tried.append("once")
        if len(tried) == 1:
            raise RuntimeError("the tables are not there yet")

    import_modules.connect(fail_once, sender=project)
    try:
        assert "the tables are not there yet" in (here.problem() or "")
        here.forget()
        assert here.problem() is None
    finally:
        import_modules.disconnect(fail_once, sender=project)
    assert len(tried) == 2


def test_two_who_come_first_get_one_store(project: Celery) -> None:
    from celery_semaphore.django import project as here

    opened, second = list[MemoryStore](), Event()

    def opens(settings: Settings) -> MemoryStore:
        opened.append(MemoryStore())
        if len(opened) == 1:
            second.wait(0.5)  # that nobody comes is the point
        else:
            second.set()
        return opened[0]

    with (
        mock.patch.object(Settings, "open_store", opens),
        mock.patch.object(
            here, "celery_app", return_value=project
        ),  # what is current is a thread's own
    ):
        threads = [Thread(target=here.inspector) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert len(opened) == 1
