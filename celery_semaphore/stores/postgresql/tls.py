"""Explain errors of TLS: which certificate is missing or wrong, and where it is named."""

from __future__ import annotations

import re

# libpq passes on the texts of OpenSSL and of the server, but no codes. The advice follows the reason.
_ADVICE = {
    r"certificate verify failed|root certificate file|does not match host name": (
        "Name the authority that signed the certificate of the store's server by sslrootcert in {origin}, and the host as"
        " the certificate does"
    ),
    r"valid client certificate|alert (?:certificate|unknown ca|bad cert)|certificate authentication failed": (
        "The store's server did not accept a client certificate. Name one by sslcert and sslkey in {origin}, which the"
        " server's authority signed and which names the role"
    ),
    r"could not load|private key file|certificate file": (
        "Correct the files of sslcert and sslkey in {origin}"
    ),
    r"does not support SSL": "Set ssl = on in the store's server, or remove sslmode from {origin}",
}


def mistake(reason: str, origin: str) -> str | None:
    """Explain an error that a certificate or its file caused; ``origin`` is the setting that names them."""
    for pattern, advice in _ADVICE.items():
        if re.search(pattern, reason):
            return f"{advice.format(origin=origin)}: {reason}"
    return None
