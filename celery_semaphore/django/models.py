"""Models: none with a table of its own. What the admin needs to have permissions and a history."""

from __future__ import annotations

from urllib.parse import quote, unquote

from django.db import models
from django.db.models.manager import EmptyManager

from ..core.key import names_of


class Semaphore(models.Model):  # type: ignore[misc]
    """A semaphore, or one key of it. It lives in the store: nothing of it is kept in the database."""

    resource = models.TextField(primary_key=True)  # its name in the store

    objects = EmptyManager(None)  # there is no table that could be asked, as dumpdata does

    class Meta:
        managed = False
        base_manager_name = "objects"
        verbose_name = "semaphore"
        default_permissions = ("view",)
        permissions = (
            ("limit_semaphore", "Can set a semaphore's limit"),
            ("pause_semaphore", "Can pause and resume a semaphore"),
            ("release_semaphore", "Can take a permit away"),
            ("drop_semaphore", "Can drop a waiting task"),
        )

    def __str__(self) -> str:
        semaphore, key = names_of(self.resource)
        return shown(semaphore) if key is None else f"{shown(semaphore)} [{shown(key)}]"


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
