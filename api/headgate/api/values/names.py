"""Valid names of groups, tenants, subjects and dimensions."""

import unicodedata

from headgate.api.values.errors import Invalid

MAX_NAME = 256
"""Characters of a group's, tenant's, user's or client's name; `Group` says so."""

MAX_PATH_NAME = 1024
"""Characters of a topic's or subscription's name: three parts and a scheme."""

MAX_DIMENSION = 64
"""Characters of a dimension; it travels in each report."""

_UNUSABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories refused in names: control, format, lone surrogate, line,
paragraph.  Format characters are invisible, and some reverse the direction of what
follows, so that a name can look like another one."""

_JOINERS = "\u200c\u200d"
"""Format characters that Persian, Hindi and other scripts are spelt with."""


def checked_name(name: str, field: str) -> str:
    """Return `name` if it can be stored and used as one segment of a path.

    Raises:
        Invalid: It is empty, too long, ``.`` or ``..``, holds a slash or a
            character that can't be printed.
    """
    if "/" in name:
        raise Invalid(field, "expected no slash")
    return checked_path_name(name, field, longest=MAX_NAME)


def checked_path_name(name: str, field: str, *, longest: int = MAX_PATH_NAME) -> str:
    """Return `name`, which may contain slashes, if it can be stored.

    Raises:
        Invalid: It is empty, too long, or holds an unprintable character.
    """
    if not name or name != name.strip():
        raise Invalid(field, "expected a name without surrounding spaces")
    if len(name) > longest:
        raise Invalid(field, f"expected at most {longest} characters, got {len(name)}")
    if name in {".", ".."}:
        raise Invalid(field, "expected a name other than . and ..")
    if name.isprintable() and "\ufffd" not in name:
        return name
    for character in name:
        if character in _JOINERS:
            continue
        if unicodedata.category(character) in _UNUSABLE or character == "\ufffd":
            raise Invalid(field, f"expected printable characters, got {character!a}")
    return name


def checked_dimension(name: str, field: str) -> str:
    """Return `name` if it is an identifier that a keyword argument can spell.

    Raises:
        Invalid: It isn't one, is too long, or is not in Unicode's normal form.
    """
    if not name.isidentifier() or unicodedata.normalize("NFKC", name) != name:
        shown = ascii(name[:40])
        raise Invalid(field, f"expected an identifier such as requests, got {shown}")
    if len(name) > MAX_DIMENSION:
        raise Invalid(
            field, f"expected at most {MAX_DIMENSION} characters, got {len(name)}"
        )
    return name
