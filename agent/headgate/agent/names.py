"""Names that come from outside: which can be sent, stored and compared."""

from __future__ import annotations


def is_unicode(name: str) -> bool:
    """Whether a name can be put into UTF-8; half a surrogate pair can't."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_visible_ascii(name: str) -> bool:
    """Whether a name can stand in an HTTP header as it is: no spaces at its ends."""
    return name.isascii() and name.isprintable() and name == name.strip()
