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

_TAGS = {None, "!", "tag:yaml.org,2002:str"}
"""Explicit tags that are accepted; others would construct values that JSON lacks."""


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

    Raises:
        TooLarge: It has more than `MAX_YAML` bytes or `MAX_YAML_NODES` values.
        ValueError: It is nested more than `MAX_DEPTH` deep, or has an alias, a
            duplicate key or a second document.
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

    def built(self, events: Iterable[yaml.Event]) -> object:
        """Return the value that `events` describe; None for no document."""
        nodes = 0
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._open[-1].append(self._scalar(event))
            elif isinstance(event, _OPENING):
                if event.tag not in _TAGS:
                    raise ValueError(f"expected no tags, got {event.tag}")
                if len(self._open) > MAX_DEPTH:
                    raise _too_deep()
                self._open.append([])
            elif isinstance(event, _CLOSING):
                items = self._open.pop()
                is_mapping = isinstance(event, yaml.MappingEndEvent)
                self._open[-1].append(_mapping(items, event) if is_mapping else items)
                continue
            elif isinstance(event, yaml.AliasEvent):
                raise ValueError(
                    "expected no aliases: they can expand a small file into a huge one"
                )
            elif isinstance(event, yaml.DocumentStartEvent) and self._open[0]:
                raise ValueError("expected one document")
            nodes += 1
            if nodes > MAX_YAML_NODES:
                raise TooLarge(f"expected at most {MAX_YAML_NODES} values and keys")
        return self._open[0][0] if self._open[0] else None

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        plain, _ = event.implicit
        known = event.tag, plain, event.value
        if known in self._scalars:
            return self._scalars[known]
        tag = event.tag
        if tag not in _TAGS:
            raise ValueError(f"expected no tags, got {tag}")
        if tag is None or tag == "!":
            tag = self._resolve(yaml.ScalarNode, event.value, event.implicit)
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
        raise ValueError(f"expected each key once, but {twice[:80]!r} is there twice")
    return found


def _mapping(items: list[object], event: yaml.Event) -> dict[object, object]:
    keys, values = items[::2], items[1::2]
    if any(isinstance(key, list | dict) for key in keys):
        raise ValueError(f"expected keys to be scalars{_place(event)}")
    found = dict(zip(keys, values, strict=True))
    if len(found) < len(keys):
        raise ValueError(f"expected each key once{_place(event)}")
    return found


def _place(event: yaml.Event) -> str:
    mark = event.end_mark
    return "" if mark is None else f", in the mapping that ends in line {mark.line + 1}"


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
