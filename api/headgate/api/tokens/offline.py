"""Create a token in the database itself: the first one, before any server runs."""

import getpass
import os

from headgate.api.opening import opened_store
from headgate.api.rights.principal import Role
from headgate.api.rights.tokens import make_token
from headgate.api.settings import CannotStart, ServerSettings
from headgate.api.store import Author
from headgate.api.values.errors import Refused


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
    author = Author(name=f"{_user()} (local)", action="headgate token create")
    try:
        with store.changing(author) as change:
            token, _ = make_token(change, name, role, tenants=tenants, life_s=life_s)
    except Refused as error:
        raise CannotStart(str(error)) from error
    finally:
        store.close()
    return token


def _user() -> str:
    """Return the name of the process's user, or its number in a container without."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter since Python 3.13
        return f"user {os.getuid()}"
