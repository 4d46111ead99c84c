"""What text can be stored: what both databases and UTF-8 can hold."""

SURROGATES = range(0xD800, 0xE000)
"""Code points that JSON can spell but UTF-8 can't; alone they are no character."""


def unstorable(text: str) -> str | None:
    r"""Return the first character that can't be stored, or None.

    >>> unstorable("größe\n")
    >>> unstorable("a\ud800") == "\ud800"
    True
    """
    if "\0" in text:  # PostgreSQL's text and JSON have no place for it
        return "\0"
    if text.isascii():
        return None
    return next((one for one in text if ord(one) in SURROGATES), None)


def check_storable(value: object) -> None:
    """Look at a text, or at the texts of a list and the keys and texts of a mapping.

    Raises:
        ValueError: One of them can't be stored.
    """
    if isinstance(value, dict):
        texts: list[object] = [*value, *value.values()]
    else:
        texts = [*value] if isinstance(value, list) else [value]
    for text in texts:
        found = unstorable(text) if isinstance(text, str) else None
        if found is not None:
            raise ValueError(f"expected printable characters, got {found!a}")
