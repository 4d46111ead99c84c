"""Tokens in the database itself: the first one, before any server runs, and others."""

import getpass
import os
from collections.abc import Generator
from contextlib import contextmanager

from headgate.api.opening import opened_store
from headgate.api.rights import tokens
from headgate.api.rights.principal import Role
from headgate.api.rights.schemas import TokenShown
from headgate.api.settings import CannotStart, ServerSettings
from headgate.api.store import Author, Store
from headgate.api.values.errors import Refused
from headgate.api.values.quantities import MAX_ROW_ID

PAGE = 1_000
"""Tokens that one query reads."""


def create_token(
    settings: ServerSettings,
    name: str,
    role: Role,
    *,
    tenants: list[str] | None = None,
    life_s: float | None = None,
) -> str:
    """Return a new token for the database of `settings`.

    Raises:
        CannotStart: The database can't be opened, or a field can't be accepted.
    """
    store = opened_store(settings)
    with _closing(store), store.changing(_author("create")) as change:
        token, _ = tokens.make_token(change, name, role, tenants=tenants, life_s=life_s)
    return token


def list_tokens(settings: ServerSettings) -> list[TokenShown]:
    """Return the tokens in the database of `settings`, without their secrets.

    Raises:
        CannotStart: The database can't be opened.
    """
    found: list[TokenShown] = []
    after: int | None = 0
    store = opened_store(settings, must_exist=True)
    with _closing(store), store.reading() as session:
        while after is not None:
            page = tokens.list_tokens(session, after=after, limit=PAGE)
            found += page.items
            after = page.next
    return found


def delete_token(settings: ServerSettings, number: int) -> None:
    """Revoke a token in the database of `settings`.

    Raises:
        CannotStart: The database can't be opened, or has no such token.
    """
    number = min(number, MAX_ROW_ID)
    store = opened_store(settings, must_exist=True)
    with _closing(store), store.changing(_author("delete")) as change:
        tokens.delete_token(change, number)


@contextmanager
def _closing(store: Store) -> Generator[None]:
    """Close `store` after the block; a refusal in it is told as `CannotStart`."""
    try:
        yield
    except Refused as error:
        raise CannotStart(str(error)) from error
    finally:
        store.close()


def _author(verb: str) -> Author:
    return Author(name=f"{_user()} (local)", action=f"headgate token {verb}")


def _user() -> str:
    """Return the name of the process's user, or its number in a container without."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter since Python 3.13
        return f"user {os.getuid()}"
