"""Explain errors of TLS: which certificate is missing or wrong, and where it is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...errors import StoreUnavailable

_SERVERS = re.compile(r"CERTIFICATE_VERIFY_FAILED")
_REFUSED = re.compile(
    r"ALERT_(?:CERTIFICATE|UNKNOWN_CA|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE)|alert (?:certificate|unknown ca)",
    re.IGNORECASE,
)
_FILES = re.compile(r"Error 2 connecting to (?!unix)|\[X509|KEY_VALUES_MISMATCH|\[PEM|PEM lib")
# The server closed the connection; what it said of the reason may be lost with it.
_CLOSED = re.compile(r"EOF occurred in violation of protocol|Connection reset by peer|Broken pipe")
UNANSWERED = "TLS with "  # begins the note at a handshake without an answer
_NO_TLS = re.compile(rf"\({UNANSWERED}|WRONG_VERSION_NUMBER|record layer failure")

NAME_ONE = (
    "name one that its authority signed by ssl_certfile and ssl_keyfile, in semaphore_url's query or"
    " in semaphore_use_ssl"
)


def mistake(reason: str) -> str | None:
    """Explain an error that a certificate or its file caused for certain."""
    if _SERVERS.search(reason):
        return (
            f"The certificate of the store's server is not trusted: {reason} Name the authority that signed it by"
            " ssl_ca_certs, in semaphore_url's query or in semaphore_use_ssl, and the host as the certificate does."
        )
    if _REFUSED.search(reason):
        return f"The store's server did not accept a client certificate: {reason}; {NAME_ONE}."
    if _FILES.search(reason):
        return (
            "A file of ssl_ca_certs, ssl_certfile or ssl_keyfile is missing, is not a certificate, or the key is that of"
            f" another certificate: {reason}"
        )
    return None


def hint(error: StoreUnavailable) -> str:
    """Return what to look at if the connection was closed or not answered, as in an outage, too; else nothing."""
    if _NO_TLS.search(str(error)):
        return " If the server does not speak TLS at this port, the URL begins with redis://."
    if not _CLOSED.search(error.reason):
        return ""
    return (
        " If the server speaks TLS, the URL begins with rediss://; if it asks for a client certificate"
        f" (tls-auth-clients), {NAME_ONE}."
    )
