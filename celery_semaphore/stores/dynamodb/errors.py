"""Say what the errors of DynamoDB and of its driver mean for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore import exceptions

from ...errors import ConfigurationError, StoreFull, StoreUnavailable
from ..documents.documents import Busy

if TYPE_CHECKING:
    from .url import Place

Driver = (exceptions.BotoCoreError, exceptions.ClientError)
MAKE_TABLE = "run `celery -A <your app> semaphore install`"

_CHANGED = frozenset({"ConditionalCheckFailed", "TransactionConflict"})
_CHANGED_ALONE = frozenset({"ConditionalCheckFailedException", "TransactionConflictException"})
_BUSY = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_NO_ANSWER = frozenset(
    {
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "TransactionInProgressException",
    }
)
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_NO_TABLE = "ResourceNotFoundException"
_TOO_LARGE = "exceeded the maximum allowed size"
_UNREACHED = (exceptions.HTTPClientError, exceptions.ConnectionError)
_NOT_CONFIGURED = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.UnauthorizedSSOTokenError,
    exceptions.SSOTokenLoadError,
    exceptions.ProfileNotFound,
    exceptions.UnknownRegionError,
    exceptions.InvalidRegionError,
)


class NoAnswer(Busy):
    """The server has not said whether it did this."""


class NoTable(StoreUnavailable):
    """There is no table of this name."""


class Denied(StoreUnavailable):
    """AWS refuses this process, or its key was not found: a worker that starts says so, and ends."""

    def as_mistake(self, origin: str) -> ConfigurationError:
        return ConfigurationError(f"{origin}: {self.reason}")


def code_of(error: Exception) -> str:
    """Return the name of an error that the server has sent; empty for another one."""
    if isinstance(error, exceptions.ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def headers_of(answer: Any) -> dict[str, str]:
    """Return the headers of an answer, also of one that is an error."""
    told = (answer or {}).get("ResponseMetadata", {})  # some errors of the driver have None
    found: dict[str, str] = told.get("HTTPHeaders", {})
    return found


def is_of_change(error: Exception) -> bool:
    """Return whether a write was refused only because a document is not as it was read."""
    return code_of(error) in _CHANGED_ALONE or bool(_reasons(error) & _CHANGED)


def translated(error: Exception, place: Place) -> Exception:
    """Return what to raise for an error of the driver."""
    code, said = code_of(error), str(error)
    codes = {code, *_reasons(error)}
    if codes & _NO_ANSWER or _is_of_server(error) or _is_unanswered(error):
        return NoAnswer(f"{place}: {said}")
    if codes & _BUSY:
        return Busy(f"{place}: {said}")
    if code == _NO_TABLE:
        return NoTable(f"The store {place}: there is no such table; {MAKE_TABLE}", said)
    msg = f"The store {place} cannot be used: {said}"
    if code in _DENIED or isinstance(error, _NOT_CONFIGURED):
        return Denied(msg, said)
    return StoreFull(msg, said) if _TOO_LARGE in said else StoreUnavailable(msg, said)


def _is_unanswered(error: Exception) -> bool:
    return isinstance(error, _UNREACHED) and not isinstance(error, exceptions.SSLError)


def _is_of_server(error: Exception) -> bool:
    if not isinstance(error, exceptions.ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status) >= 500  # noqa: PLR2004 - of HTTP


def _reasons(error: Exception) -> set[str]:
    """Return why the parts of a transaction were refused."""
    if not isinstance(error, exceptions.ClientError):
        return set()
    found: list[dict[str, str]] = error.response.get("CancellationReasons", [])
    return {each.get("Code", "") for each in found}
