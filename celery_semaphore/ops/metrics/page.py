"""Page: show semaphores in a browser, as ``list``, ``show`` and ``why`` print them. Nothing can be changed there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from ...core.key import is_resource_name, semaphore_of
from ...errors import SemaphoreError, StoreUnavailable, UnknownSemaphore
from .. import tables
from ..inspector import Inspector
from ..show import KEYS
from ..text import place, printable
from ..why import told

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ..views import KeyView, SemaphoreView, View

PAGE = "/page"
STILL = "still"  # in an address: the page does not reload by itself
PATIENCE_S = 3.0  # for another request; else each reload beside one that hangs would keep a thread
REFRESH = '<meta http-equiv="refresh" content="5">\n'  # seconds
ASK = '<form><label>Task id <input type="search" name="task" autofocus required></label> <button>Find</button></form>'
HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    # Names of keys and tasks are not ours: if one ever came in unescaped, the browser would run nothing of it.
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    ),
    ("Referrer-Policy", "no-referrer"),
]
HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
{refresh}<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }}
body {{ max-inline-size: 72rem; margin: 1rem auto; padding-inline: 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: start; padding: 0.25rem 1.5rem 0.25rem 0; border-block-end: 1px solid #8886; overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; }}
</style>
</head>
<body>
<p><a href="{page}">Semaphores</a> · <a href="{page}?task=">Why does a task wait?</a>{reloading}</p>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@contextmanager
def page_of(app: Any, *, wanted: bool) -> Iterator[Mapping[str, WSGIApplication]]:
    """Yield the page of an app by its path, if it is wanted, and close its store after it."""
    if not wanted:
        yield {}
        return
    with Inspector.of(app) as inspector:
        yield {PAGE: Page(inspector)}


class Page:
    """The WSGI application behind ``/page``."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._reading = Lock()  # however many look, one request at a time reads the store

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        asked = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        status, title, body = self._answer({name: values[0] for name, values in asked.items()})
        typing, still = body == ASK, STILL in asked
        page = HTML.format(
            title=escape(title),
            body=body,
            page=PAGE,
            refresh="" if typing or still else REFRESH,  # it would interrupt the typing
            reloading="" if typing else _reloading(asked, still=still),
        ).encode()
        start_response(
            f"{status.value} {status.phrase}", [*HEADERS, ("Content-Length", str(len(page)))]
        )
        return [page]

    def _answer(self, asked: Mapping[str, str]) -> tuple[HTTPStatus, str, str]:
        try:
            if not self._reading.acquire(timeout=PATIENCE_S):
                return _problem(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "Another request takes long: the workers, or the store of results, do not answer.",
                )
            try:
                return (HTTPStatus.OK, *self._shown(asked))
            finally:
                self._reading.release()
        except StoreUnavailable:
            # The cause is in the exporter's log only: it may name servers and users.
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "The store does not answer.")
        except UnknownSemaphore as error:
            return _problem(HTTPStatus.NOT_FOUND, str(error))
        except SemaphoreError as error:
            return _problem(HTTPStatus.BAD_REQUEST, str(error))

    def _shown(self, asked: Mapping[str, str]) -> tuple[str, str]:
        """Return the title and the body of what is asked for."""
        if "task" in asked and not asked["task"].strip():
            return "Why does a task wait?", ASK
        if "task" in asked:
            task_id = asked["task"].strip()
            return f"Task {printable(task_id)}", _text(told(self._inspector.why(task_id)))
        if "at" in asked:
            return self._resource(asked["at"])
        return "Semaphores", _semaphores(self._inspector.semaphores())

    def _resource(self, resource: str) -> tuple[str, str]:
        if not is_resource_name(resource):
            msg = f"there is no semaphore {resource[:100]!r}; follow a link of the list."
            raise UnknownSemaphore(msg)
        view = self._inspector.resource(resource)
        keys = self._inspector.keys(resource) if resource == semaphore_of(resource) else []
        body = _text(tables.without_keys(view, keys))
        more = f"<p>… and {len(keys) - KEYS} more</p>" if len(keys) > KEYS else ""
        return place(view), f"{body}\n{_keys(keys[:KEYS])}{more}" if keys else body


def _semaphores(views: Sequence[SemaphoreView]) -> str:
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in tables.notes_of_semaphores(views))
    if not views:
        return f"<p>{escape(tables.NONE_IN_USE)}</p>\n{notes}"
    return _table(views, *tables.rows_of_semaphores(views)) + notes


def _keys(views: Sequence[KeyView]) -> str:
    return _table(views, *tables.rows_of_keys(views))


def _table(
    views: Sequence[View],
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> str:
    """Return the table, in which the first cell of each row leads to the page of its view."""
    headings = "".join(f'<th scope="col">{escape(each.capitalize())}</th>' for each in head)
    lines = (
        [_link(view.resource, name), *map(escape, cells)]
        for view, (name, *cells) in zip(views, rows, strict=True)
    )
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>\n" for line in lines)
    return f"<table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def _link(resource: str, name: str) -> str:
    return f'<a href="{escape(PAGE)}?{escape(urlencode({"at": resource}))}">{escape(name)}</a>'


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _reloading(asked: Mapping[str, Sequence[str]], *, still: bool) -> str:
    """Return the link to the same page that stops reloading, or that begins again."""
    others = [(name, values[0]) for name, values in asked.items() if name != STILL]
    address = urlencode(others if still else [*others, (STILL, "1")])
    return f' · <a href="{escape(PAGE)}?{escape(address)}">{"Reload" if still else "Stop reloading"}</a>'


def _problem(status: HTTPStatus, text: str) -> tuple[HTTPStatus, str, str]:
    return status, status.phrase, f"<p>{escape(text)}</p>"
