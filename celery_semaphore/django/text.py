"""Encode any text so that it can be shown, logged and sent back by a browser: keys and ids may be any text."""

from __future__ import annotations

from urllib.parse import quote, unquote


def shown(text: str) -> str:
    """Return a name for pages and the log, with escapes for what cannot be printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def spelt(text: str) -> str:
    """Return a holder or a task for an address or a form; its id may be text that no browser can send back."""
    return quote(text, safe=":", errors="surrogatepass")


def meant(spelt: str) -> str:
    try:
        return unquote(spelt, errors="surrogatepass")
    except UnicodeDecodeError:  # it is the id of no task or holder
        return spelt
