"""Which names from outside can be sent, stored and compared."""

from __future__ import annotations


def is_unicode(name: str) -> bool:
    """Whether a name can be encoded as UTF-8; half a surrogate pair can't."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_visible_ascii(name: str) -> bool:
    """Whether a name can be an HTTP header's value as it is, with no outer spaces."""
    return name.isascii() and name.isprintable() and name == name.strip()
