"""A certificate authority of a test's own, made by openssl."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


def why_missing() -> str | None:
    return None if shutil.which("openssl") else "no openssl in PATH: apt-get install openssl"


@dataclass(frozen=True)
class Certificate:
    """The paths of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; its own is ``ca``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ca, self._key = folder, folder / "ca.pem", folder / "ca.key"
        # Python 3.13 takes no authority that does not say what its key is for.
        what_for = ("-subj", "/CN=a test's authority", "-addext", "keyUsage=critical,keyCertSign")
        openssl(
            *("req", *KEY, "-keyout", str(self._key), "-x509", "-days", "2"),
            *(*what_for, "-out", str(self.ca)),
        )

    def sign(self, name: str, *, address: str = "127.0.0.1") -> Certificate:
        """Make a certificate for this common name, of a server at the address or of a client."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request = str(self.folder / f"{name}.request")
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}")
        openssl("req", *KEY, "-keyout", str(made.key), *subject, "-out", request)
        signing = ["-CA", str(self.ca), "-CAkey", str(self._key), "-CAcreateserial"]
        signing += ["-copy_extensions", "copy", "-days", "2", "-out", str(made.cert)]
        openssl("x509", "-req", "-in", request, *signing)
        return made


def redis_query(ca: Path, client: Certificate | None = None) -> str:
    """Return the part of a rediss:// URL that names the certificates."""
    words = {"ssl_ca_certs": ca}
    if client:
        words |= {"ssl_certfile": client.cert, "ssl_keyfile": client.key}
    return urlencode(words)


def postgres_query(ca: Path, client: Certificate | None = None) -> str:
    """Return the part of a postgresql:// URL that names the certificates."""
    words: dict[str, object] = {"sslmode": "verify-full", "sslrootcert": ca}
    if client:
        words |= {"sslcert": client.cert, "sslkey": client.key}
    return urlencode(words)
