"""Where in a quota file the API found an error: the line and the field.

Finding lines takes PyYAML, which comes with ``headgate[cli]``; without it the
message names only the field.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml._yaml import Mark as CMark
    from yaml.error import Mark
    from yaml.nodes import Node

    from headgate.cli.failure import RefusedByApi

_STEP = re.compile(r"\[(\d+)\]")
_UNREAD = re.compile(r"(?:YAML|JSON): (?:line (\d+): )?(.+)")
"""What the API says of a file that it can't read; of YAML, with the line."""

_QUOTED = re.compile(r"'([^']+)'")


def with_place(name: str, raw: bytes, refused: RefusedByApi, *, is_json: bool) -> str:
    """Return a refusal with the line and field of the file that caused it.

    A refusal that isn't about a place in the file is returned unchanged.

    Args:
        name: Name of the file.
        raw: Its content.
        refused: The API's refusal.
        is_json: The file is JSON; otherwise it is YAML.
    """
    text, unreadable = _text(raw)
    unreadable = unreadable or (_not_json(text) if is_json else _not_yaml(text))
    if unreadable is not None:
        line, why = unreadable
        return f"{name}:{line}: {why}"
    unread = _UNREAD.fullmatch(str(refused))
    if unread is not None:
        at = unread[1] or (_repeated_line(text) if is_json else None)
        place = f"{name}:{at}" if at else name
        return f"{place}: {unread[2]}"
    root = _root(text)
    if root is None:
        return f"{name}: {refused}" if refused.problems else str(refused)
    if refused.problems:
        field = refused.problems[0][0]
        return f"{name}:{_line(_nearest(root, field))}: {refused}"
    for quoted in _QUOTED.findall(str(refused)):
        for field, node in _scalars(root, ""):
            if node.value == quoted:
                return f"{name}:{_line(node)}: {field}: {refused}"
    return str(refused)


def _text(raw: bytes) -> tuple[str, tuple[int, str] | None]:
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return "", (line, "expected UTF-8")


def _not_json(text: str) -> tuple[int, str] | None:
    """Return the line where `text` stops being JSON, and why."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno, f"expected JSON: {error.msg} (column {error.colno})"
    except (
        ValueError,
        RecursionError,
    ):  # a number of 5,000 digits, or very deep nesting
        return None
    return None


def _not_yaml(text: str) -> tuple[int, str] | None:
    """Return the line where `text` stops being YAML, and why."""
    try:
        import yaml
    except ModuleNotFoundError:
        return None
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                return _number(event.start_mark), "expected YAML without aliases"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "it can't be parsed"
        column = "" if mark is None else f" (column {mark.column + 1})"
        return _number(mark), f"expected YAML: {why}{column}"
    except yaml.YAMLError as error:
        return 1, f"expected YAML: {error}"
    return None


def _root(text: str) -> Node | None:
    """Return the document with its lines; None if they can't be found."""
    try:
        import yaml
    except ModuleNotFoundError:
        return None
    try:
        root: Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    return root


def _nearest(root: Node, field: str) -> Node:
    """Return the node of `field`, or the closest one on the path to it."""
    node = root
    while field:
        found = _step(node, field)
        if found is None:
            break
        node, field = found
    return node


def _step(node: Node, field: str) -> tuple[Node, str] | None:
    """Return the node one step down the path, and the rest of the path."""
    from yaml.nodes import MappingNode, SequenceNode

    if isinstance(node, SequenceNode):
        match = _STEP.match(field)
        if match is None or int(match[1]) >= len(node.value):
            return None
        return node.value[int(match[1])], field[match.end() :].removeprefix(".")
    if isinstance(node, MappingNode):
        # Longest first: names may hold dots.
        for key, value in sorted(node.value, key=lambda pair: -len(pair[0].value)):
            rest = field.removeprefix(key.value)
            if rest != field and rest[:1] in {"", ".", "["}:
                return (value if rest else key), rest.removeprefix(".")
    return None


def _scalars(node: Node, field: str) -> Iterator[tuple[str, Node]]:
    """Yield each scalar value below `node` with its field."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if isinstance(node, MappingNode):
        for key, value in node.value:
            name = str(key.value)
            yield from _scalars(value, f"{field}.{name}" if field else name)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            yield from _scalars(value, f"{field}[{index}]")
    elif isinstance(node, ScalarNode):
        yield field, node


def _repeated_line(text: str) -> int | None:
    """Return the line of the first key that its JSON object had already."""
    root = _root(text)
    found = None if root is None else _repeated(root)
    return None if found is None else _line(found)


def _repeated(node: Node) -> Node | None:
    from yaml.nodes import MappingNode, SequenceNode

    if isinstance(node, SequenceNode):
        return next(filter(None, map(_repeated, node.value)), None)
    seen = set[str]()
    for key, value in node.value if isinstance(node, MappingNode) else ():
        found = key if key.value in seen else _repeated(value)
        if found is not None:
            return found
        seen.add(key.value)
    return None


def _line(node: Node) -> int:
    return _number(node.start_mark)


def _number(mark: Mark | CMark | None) -> int:
    """Return the line of a mark, counted from 1."""
    return 1 if mark is None else int(mark.line) + 1
