"""Encode names as plain ASCII without NUL, which the server can store in any encoding; and decode them."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

from ...core.names import PLAIN


def stored(name: str) -> str:
    """Encode a name. Plain names, nearly all, do not change, and the order of names is kept."""
    if name.isascii() and name.isprintable() and "%" not in name:
        return name
    return quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe=PLAIN)


def original(name: str) -> str:
    return unquote_to_bytes(name).decode("utf-8", "surrogatepass") if "%" in name else name
