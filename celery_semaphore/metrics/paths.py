"""Paths: answer each path of the server by its application, and any other path with one line that names these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS = "/metrics"
LONGEST_SHOWN = 100  # characters of a path that does not exist


class Paths:
    """The application of the whole server."""

    def __init__(self, applications: Mapping[str, WSGIApplication]) -> None:
        self._applications = applications

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ["PATH_INFO"]
        if (application := self._applications.get(path)) is not None:
            return application(environ, start_response)
        if path in ("", "/"):
            return _answer(start_response, HTTPStatus.FOUND, METRICS, ("Location", METRICS))
        known = " or ".join(self._applications)
        said = f"there is no {path[:LONGEST_SHOWN]!r} here; ask for {known}"
        return _answer(start_response, HTTPStatus.NOT_FOUND, said)


def _answer(
    start_response: StartResponse, status: HTTPStatus, text: str, *more: tuple[str, str]
) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", [*headers, *more])
    return [body]
