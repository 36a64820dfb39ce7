"""Answer ``GET /scale?queue=q`` with JSON, for the scaler ``metrics-api`` of KEDA and others that read JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from .exporter import Exporter, Unanswered, UnknownQueue


class ScaleAnswer:
    """The WSGI application behind ``/scale``."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        status, answer = self._answer(parse_qs(environ.get("QUERY_STRING", "")).get("queue", []))
        body = json.dumps(answer).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    def _answer(self, queues: list[str]) -> tuple[HTTPStatus, dict[str, Any]]:
        if len(queues) != 1:
            return HTTPStatus.BAD_REQUEST, {"error": "name one queue: /scale?queue=celery"}
        try:
            return HTTPStatus.OK, self._exporter.scale(queues[0]).as_dict()
        except UnknownQueue:
            error = f"there is no queue {queues[0][:100]!r}; name it with --queue if it is new"
            return HTTPStatus.NOT_FOUND, {"error": error}
        except Unanswered:
            # The cause is in the log only: it may name servers and users.
            error = (
                "the store, the broker or the workers did not answer; the exporter's log says why"
            )
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": error}
