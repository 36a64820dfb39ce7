"""Text: any is a legal key and a legal id, and must be shown, logged and sent back by a browser."""

from __future__ import annotations

from urllib.parse import quote, unquote


def shown(text: str) -> str:
    """A name for pages and the log. Any text is a legal key: what cannot be printed is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def spelt(text: str) -> str:
    """A holder or a task in an address and a form. Any text may be its id: also what no browser can send back."""
    return quote(text, safe=":", errors="surrogatepass")


def meant(spelt: str) -> str:
    try:
        return unquote(spelt, errors="surrogatepass")
    except UnicodeDecodeError:  # nobody's id
        return spelt
