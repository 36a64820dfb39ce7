"""What the errors of DynamoDB mean, by their names."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, NoCredentialsError, SSLError

from celery_semaphore.errors import StoreFull, StoreUnavailable
from celery_semaphore.stores.documents.documents import Busy
from celery_semaphore.stores.dynamodb.errors import (
    Denied,
    NoAnswer,
    NoTable,
    is_of_change,
    translated,
)
from celery_semaphore.stores.dynamodb.url import Place

PLACE = Place("eu-west-1", "permits")


def sent(code: str, *reasons: str, status: int = 400, message: str = "so it is") -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    if reasons:
        answer["CancellationReasons"] = [{"Code": each} for each in reasons]
    return ClientError(answer, "PutItem")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sent("ProvisionedThroughputExceededException"), Busy),
        (sent("ThrottlingException"), Busy),
        (sent("RequestLimitExceeded"), Busy),
        (sent("anything", status=500), NoAnswer),
        (sent("InternalServerError"), NoAnswer),
        (sent("TransactionCanceledException", "ThrottlingError", "InternalServerError"), NoAnswer),
        (sent("TransactionCanceledException", "None", "ThrottlingError"), Busy),
        (sent("TransactionCanceledException", "ProvisionedThroughputExceeded"), Busy),
        (ConnectTimeoutError(endpoint_url="x"), NoAnswer),
        (SSLError(endpoint_url="x", error="y"), StoreUnavailable),
        (sent("ResourceNotFoundException"), NoTable),
        (sent("AccessDeniedException"), Denied),
        (sent("UnrecognizedClientException"), Denied),
        (sent("ExpiredTokenException"), Denied),
        (NoCredentialsError(), Denied),
        (sent("ValidationException", message="… exceeded the maximum allowed size"), StoreFull),
        (sent("ValidationException"), StoreUnavailable),
    ],
)
def test_what_a_call_raises(error: Exception, kind: type[Exception]) -> None:
    found = translated(error, PLACE)
    assert type(found) is kind
    assert "table permits in eu-west-1" in str(found)


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (sent("ConditionalCheckFailedException"), True),
        (sent("TransactionConflictException"), True),
        (sent("TransactionCanceledException", "None", "ConditionalCheckFailed"), True),
        (sent("TransactionCanceledException", "TransactionConflict"), True),
        (sent("TransactionCanceledException", "ThrottlingError"), False),
        (sent("ThrottlingException"), False),
        (NoCredentialsError(), False),
    ],
)
def test_a_document_that_was_changed(error: Exception, *, changed: bool) -> None:
    assert is_of_change(error) is changed
