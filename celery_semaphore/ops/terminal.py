"""What all commands have in common: the inspector of the app, errors in one line, and what is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os import EX_UNAVAILABLE
from typing import Any

import click

from ..errors import ConfigurationError, SemaphoreError, StoreUnavailable
from .inspector import Inspector


class _Unavailable(click.ClickException):
    exit_code = EX_UNAVAILABLE


@contextmanager
def inspecting(ctx: click.Context, timeout: float = 0.0) -> Iterator[Inspector]:
    """That of the app; what goes wrong is said in one line."""
    app = ctx.obj.app
    app.loader.import_default_modules()  # the tasks, which declare limits
    with said_in_one_line(app), closing(Inspector.of(app, timeout=timeout)) as inspector:
        yield inspector


@contextmanager
def said_in_one_line(app: Any) -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise _Unavailable(str(error)) from error
    except ConfigurationError as error:
        # The app that Celery's command line makes where none is named.
        hint = " Or name your app: celery -A …" if app.main == "default" else ""
        raise click.ClickException(f"{error}{hint}") from error
    except SemaphoreError as error:
        raise click.ClickException(str(error)) from error


def say(ctx: click.Context, what: Any) -> None:
    ctx.obj.echo(what if isinstance(what, str) else json.dumps(what, indent=2))


def known(inspector: Inspector, name: str, key: str | None) -> str:
    """The resource that is meant; its semaphore is no misspelt one."""
    resource = inspector.find(name, key)
    inspector.check(resource)
    return resource
