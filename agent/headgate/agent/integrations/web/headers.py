"""What a request's header says, however the framework has decoded it."""

from __future__ import annotations


def header_text(value: bytes | str) -> str:
    """Return a header's value as UTF-8 if its bytes are, otherwise as Latin-1.

    Args:
        value: Its bytes, or what WSGI and most frameworks make of them: Latin-1.
    """
    try:
        raw = value.encode("latin-1") if isinstance(value, str) else value
        return raw.decode()
    except UnicodeError:
        return value if isinstance(value, str) else value.decode("latin-1")
