"""Names as the server can keep them in any encoding: plain ASCII, without NUL; and back."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

from ...core.names import PLAIN


def stored(name: str) -> str:
    """Names that are plain already, as nearly all are, stay as they are; the order stays too."""
    if name.isascii() and name.isprintable() and "%" not in name:
        return name
    return quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe=PLAIN)


def original(name: str) -> str:
    return unquote_to_bytes(name).decode("utf-8", "surrogatepass") if "%" in name else name
