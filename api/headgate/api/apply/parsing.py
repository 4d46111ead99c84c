"""Parse untrusted JSON and YAML, bounded in depth, nodes and time.

YAML is built from libyaml's events, one at a time, because its own composer
recurses in C and a deeply nested document would overflow the stack.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

import yaml

MAX_DEPTH = 50
"""Nested lists and mappings; a file of quotas needs five."""

MAX_NODES = 2_000_000
"""Values and keys in a body: 250,000 attachments have 1,750,000.  An empty list is
three bytes of text but 64 of memory, so a bound on bytes does not bound memory."""

MAX_YAML = 8 * 1024 * 1024
"""Bytes of YAML, which takes ten times as long to read as JSON."""

MAX_YAML_NODES = 1_000_000
"""Values and keys of YAML: 100,000 attachments have 700,000."""

MAX_SHARED = 100_000
"""Distinct scalars of YAML that are built once: keys, kinds and names of groups."""

_BYTES_OF_NODES = (b",", b":", b"[", b"{")
"""Every value or key except the first follows one of these."""

_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)

_TEXT = "tag:yaml.org,2002:str"

_TAGS = {None, "!", _TEXT}
"""Explicit tags that are accepted; others would construct values that JSON lacks."""


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class TooLarge(ValueError):
    """A body that could be read, but would take too much memory or time."""


def parse_json(raw: bytes) -> object:
    """Return the content of a JSON text.

    Raises:
        TooLarge: It has more than `MAX_NODES` values.  Commas and brackets inside
            strings count as well.
        ValueError: It is not JSON, is nested more than `MAX_DEPTH` deep, or has a
            duplicate key, of which only the last would count.
    """
    if 1 + sum(map(raw.count, _BYTES_OF_NODES)) > MAX_NODES:
        raise TooLarge(f"expected at most {MAX_NODES} values and keys")
    try:
        content: object = json.loads(raw, object_pairs_hook=object_of)
    except RecursionError:
        raise _too_deep() from None
    check_depth(content)
    return content


def parse_yaml(raw: bytes) -> object:
    """Return the content of a YAML text, by the rules of `yaml.safe_load`.

    Except that 12:30 is a text, as in YAML 1.2, rather than the number 750.

    Raises:
        TooLarge: It has more than `MAX_YAML` bytes or `MAX_YAML_NODES` values.
        ValueError: It is nested more than `MAX_DEPTH` deep, or has an alias, a
            duplicate key or a second document.  The message begins with the line.
        yaml.YAMLError: It is not YAML.
    """
    if len(raw) > MAX_YAML:
        raise TooLarge(f"expected at most {MAX_YAML} bytes of YAML; send JSON instead")
    try:
        return _Builder().built(yaml.parse(raw, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        # libyaml reads ahead, and newer versions refuse a thousand levels themselves.
        if "nesting depth" in (error.problem or ""):
            raise _too_deep() from None
        raise


class _Builder:
    """Builds plain Python values from YAML events, without recursion."""

    def __init__(self) -> None:
        self._rules = yaml.SafeLoader("")
        self._resolve: Callable[[type[yaml.Node], str, object], str] = (
            self._rules.resolve  # pyright: ignore[reportUnknownMemberType]
        )
        self._scalars: dict[tuple[str | None, bool, str], object] = {}
        self._open: list[list[object]] = [[]]
        self._keys: list[set[object] | None] = [None]
        """Of each that is open: the keys so far; None for a list."""

    def built(self, events: Iterable[yaml.Event]) -> object:
        """Return the value that `events` describe; None for no document."""
        nodes = 0
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._add(event)
            elif isinstance(event, _OPENING):
                self._begin(event)
            elif isinstance(event, _CLOSING):
                self._end()
                continue
            elif isinstance(event, yaml.AliasEvent):
                raise _at(
                    event,
                    "expected no aliases: they can expand a small file into a huge one",
                )
            elif isinstance(event, yaml.DocumentStartEvent) and self._open[0]:
                raise _at(event, "expected one document")
            nodes += 1
            if nodes > MAX_YAML_NODES:
                raise TooLarge(f"expected at most {MAX_YAML_NODES} values and keys")
        return self._open[0][0] if self._open[0] else None

    def _add(self, event: yaml.ScalarEvent) -> None:
        scalar, keys = self._scalar(event), self._awaited_keys()
        if keys is not None:
            if scalar in keys:
                raise _at(event, _twice(event.value))
            keys.add(scalar)
        self._open[-1].append(scalar)

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in _TAGS:
            raise _at(event, f"expected no tags, got {event.tag}")
        if self._awaited_keys() is not None:
            raise _at(event, "expected keys to be scalars")
        if len(self._open) > MAX_DEPTH:
            raise _at(event, str(_too_deep()))
        self._open.append([])
        self._keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)

    def _end(self) -> None:
        items = self._open.pop()
        if self._keys.pop() is None:
            self._open[-1].append(items)
        else:
            self._open[-1].append(dict(zip(items[::2], items[1::2], strict=True)))

    def _awaited_keys(self) -> set[object] | None:
        """Return the keys that the next one must differ from; None before a value."""
        return self._keys[-1] if len(self._open[-1]) % 2 == 0 else None

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        plain, _ = event.implicit
        known = event.tag, plain, event.value
        if known in self._scalars:
            return self._scalars[known]
        tag = event.tag
        if tag not in _TAGS:
            raise _at(event, f"expected no tags, got {tag}")
        if tag is None or tag == "!":
            tag = self._resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in _NUMBERS and ":" in event.value:
            tag = _TEXT
        mark = cast("yaml.error.Mark | None", event.start_mark)
        node = yaml.ScalarNode(tag, event.value, mark)
        built: object = self._rules.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        if len(self._scalars) < MAX_SHARED:
            self._scalars[known] = built
        return built


def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object from its members.

    Raises:
        ValueError: A key is there twice; only the last value would count.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(_twice(twice))
    return found


def _twice(key: str) -> str:
    return f"expected each key once, but {key[:80]!r} is there twice"


def _at(event: yaml.Event, reason: str) -> ValueError:
    mark = event.start_mark
    return ValueError(reason if mark is None else f"line {mark.line + 1}: {reason}")


def check_depth(content: object, most: int = MAX_DEPTH) -> None:
    """Check how deep lists and mappings are nested.

    Raises:
        ValueError: They are nested more than `most` deep.
    """
    level = [content]
    for _ in range(most):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, list):
                deeper += cast("list[object]", item)
            elif isinstance(item, dict):
                deeper += cast("dict[str, object]", item).values()
        if not deeper:
            return
        level = deeper
    if any(isinstance(item, list | dict) for item in level):
        raise _too_deep(most)


def _too_deep(most: int = MAX_DEPTH) -> ValueError:
    return ValueError(f"expected at most {most} levels of nesting")
