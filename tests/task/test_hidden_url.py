"""The password of the store: Celery shows its configuration, but not this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.worker.control import conf as inspect_conf

from celery_semaphore import LimitedTask
from celery_semaphore.settings import Settings
from tests.support.process import ROOT

SECRET = "s3cret"
URL = f"redis://:{SECRET}@127.0.0.1:1/0?password={SECRET}"
OPTIONS = {"password": SECRET, "sentinel_kwargs": {"password": SECRET}, "client_name": "shop"}


def make_app(namespace: str | None) -> Celery:
    prefix = "CELERY_SEMAPHORE" if namespace else "semaphore"
    names = {"url": URL, "transport_options": OPTIONS, "lease": 7}
    given = {
        f"{prefix}_{name.upper() if namespace else name}": value for name, value in names.items()
    }
    app = Celery("shop", broker="memory://", set_as_current=False, task_cls=LimitedTask)
    app.config_from_object(SimpleNamespace(**given), namespace=namespace)
    return app


@pytest.mark.parametrize("namespace", [None, "CELERY"], ids=["own names", "as Django's"])
@pytest.mark.parametrize("with_defaults", [False, True])
def test_what_celery_shows(namespace: str | None, with_defaults: bool) -> None:
    app = make_app(namespace)
    settings = Settings.from_app(app)
    assert settings.url == URL, "what is used is whole"
    assert settings.transport_options == OPTIONS
    shown = [
        app.bugreport(),
        app.conf.humanize(with_defaults=with_defaults),
        str(app.conf.table(with_defaults=with_defaults)),
        str(inspect_conf(SimpleNamespace(app=app), with_defaults=with_defaults)),
        repr(settings),
        str(settings),
    ]
    for text in shown:
        assert SECRET not in text
    for text in shown[:4]:
        assert "_lease" in text.lower(), "the other settings are shown"
        assert "client_name" in text


def test_the_report_of_an_app_that_only_names_us(tmp_path: Any) -> None:
    """As `task_cls`: nothing of ours is imported by the project itself."""
    (tmp_path / "proj.py").write_text(
        f"""from celery import Celery
app = Celery("proj", broker="memory://", task_cls="celery_semaphore:LimitedTask")
app.conf.semaphore_url = {URL!r}
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "proj", "report"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    assert "semaphore_url" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_celerys_own_names_are_hidden_as_before() -> None:
    app = make_app(None)
    app.conf.update(api_number="x1x", broker_url=f"redis://:{SECRET}@h:1/0", harmless="plain")
    text = json.dumps(app.conf.table(), default=str)
    assert "x1x" not in text
    assert SECRET not in text
    assert "plain" in text
