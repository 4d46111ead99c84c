"""Which limit applies to a descriptor: envoyproxy/ratelimit's YAML, and subjects.

A file describes one domain.  Its `descriptors` are a tree, walked along the entries of
a request's descriptor in their order; at each level the exact key and value win, then
the first wildcard in the order of the file, then the key alone, where each value has a
limit of its own.  Only a limit at the last entry counts.  Keys and values are compared
joined by an underscore, as envoyproxy/ratelimit does.

`subjects` is Headgate's own addition: it says which keys name a tenant, a user or
another subject, whose groups then apply.  So proxies share their limits with processes
that hold a limiter of the same subject.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from headgate.agent.errors import InvalidSetting
from headgate.agent.follow.subject import SubjectNames
from headgate.agent.integrations.web.key_groups import Quota

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Entries = Sequence[tuple[str, str]]

UNITS_S: Mapping[str, float] = {
    "second": 1.0,
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 86_400.0,
    "week": 604_800.0,
    "month": 2_592_000.0,
    "year": 31_536_000.0,
}
"""Seconds of each unit; months of 30 days, as envoyproxy/ratelimit counts them."""

LARGEST_FILE = 1 << 20
"""Most bytes of a file."""

DEEPEST = 32
"""Most levels of descriptors: an Envoy sends a handful of entries."""

LONGEST_KEY = 512
"""Longest key of a bucket that is kept as it is, characters; a longer one is hashed."""

MOST_HITS = 2**32 - 1
"""The largest `requests_per_unit`: an unsigned integer of 32 bits on the wire."""

DOMAIN_KEYS = ("domain", "descriptors", "subjects", "dimension")
DESCRIPTOR_KEYS = (
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "shadow_mode",
    "share_threshold",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "metadata",
)
LIMIT_KEYS = ("unit", "requests_per_unit", "unlimited", "name", "replaces")


class InvalidDescriptors(InvalidSetting):
    """A file of limits can't be used; says where and what was expected.

    Attributes:
        field: Path of the offending field, such as ``descriptors[0].key``; empty
            where the file as a whole is wrong.
        reason: What was expected.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.field = where
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorRule:
    """The limit of one descriptor.

    Attributes:
        requests_per_unit: Hits per unit; 0 refuses all.
        unit: A key of `UNITS_S`.
        unlimited: Nothing is counted.
        shadow: Count, and answer OK.
        quota_mode: Refuse only when every other limit in this mode refuses as well.
        name: Name by which other rules replace this one.
        replaces: Names of rules that don't apply where this one does.
    """

    requests_per_unit: int
    unit: str
    unlimited: bool = False
    shadow: bool = False
    quota_mode: bool = False
    name: str = ""
    replaces: frozenset[str] = frozenset()

    @property
    def period_s(self) -> float:
        """Length of the unit, seconds."""
        return UNITS_S[self.unit]

    @property
    def quota(self) -> Quota:
        """What one key may do; only where `requests_per_unit` is above 0."""
        return Quota(float(self.requests_per_unit), self.period_s)


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """A rule, and the bucket that it counts in.

    Attributes:
        rule: The limit.
        key: Equal for descriptors that share a bucket.
    """

    rule: DescriptorRule
    key: str


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    wildcards: list[tuple[list[str], str]] = field(
        default_factory=list[tuple[list[str], str]]
    )
    rule: DescriptorRule | None = None
    shared_value: str | None = None

    def step(self, key: str, value: str) -> tuple[_Node | None, bool]:
        """Return the next node, and whether a wildcard led there."""
        joined = f"{key}_{value}"
        exact = self.children.get(joined)
        if exact is not None:
            return exact, False
        for parts, pattern in self.wildcards:
            if fits(parts, joined):
                return self.children[pattern], True
        return self.children.get(key), False


@dataclass(frozen=True, slots=True)
class LimitDomain:
    """The contents of one file.

    Attributes:
        name: Of the domain.
        subjects: What each key names: a field of `SubjectNames`, or None for a key to
            ignore.
        dimension: What a hit of a subject counts as.
    """

    name: str
    subjects: Mapping[str, str | None]
    dimension: str
    _root: _Node

    def match(self, entries: Entries) -> MatchedRule | None:
        """Return the rule that applies to a descriptor, or None."""
        node, values = self._root, list[str]()
        for key, value in entries:
            found, by_wildcard = node.step(key, value)
            if found is None:
                return None
            node = found
            shared = node.shared_value if by_wildcard else None
            values.append(f"{key}_{value if shared is None else shared}")
        if node.rule is None or not values:
            return None
        return self.counted(node.rule, values)

    def counted(self, rule: DescriptorRule, parts: Sequence[str]) -> MatchedRule:
        """Return a rule with the key of its bucket.

        A rule that has changed begins with a new bucket.
        """
        amount = f"{rule.requests_per_unit}/{rule.unit}"
        key = "|".join([self.name, *parts, amount])
        if len(key) > LONGEST_KEY:  # ten thousand of 10 kB would be 100 MB
            key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return MatchedRule(rule, key)

    def match_any_order(self, entries: Mapping[str, str]) -> MatchedRule | None:
        """Return the rule that applies to entries without an order, or None.

        The key alone decides which entry is taken at a level, in alphabetical order
        where several would do, so that equal entries always get the same rule.
        """
        ordered = _ordered(self._root, sorted(entries.items()))
        return None if ordered is None else self.match(ordered)

    def subject(self, entries: Entries) -> SubjectNames | None:
        """Return who asks; None unless every entry is mapped, one to a name."""
        names = SubjectNames()
        for key, value in entries:
            if key not in self.subjects:
                return None
            kind = self.subjects[key]
            if kind is not None:
                cast("dict[str, str]", names)[kind] = value
        return names or None


def fits(parts: Sequence[str], text: str) -> bool:
    """Return whether a text fits a pattern that was split at its asterisks.

    >>> fits("path_/api/*/v*".split("*"), "path_/api/users/v2")
    True
    >>> fits("a*a".split("*"), "a")
    False
    """
    first, *middle, last = parts
    fixed = sum(map(len, parts))
    if not text.startswith(first) or not text.endswith(last) or len(text) < fixed:
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        place = text.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def override(requests_per_unit: int, unit: str) -> DescriptorRule:
    """Return the rule that a request brings along for one descriptor."""
    return DescriptorRule(requests_per_unit=requests_per_unit, unit=unit)


def read_domain(raw: bytes) -> LimitDomain:
    """Return the domain that a YAML file describes.

    Raises:
        InvalidDescriptors: The file can't be read, or a field is wrong.
    """
    document = _mapping(_parsed(raw), "")
    _check_keys(document, DOMAIN_KEYS, "")
    name = document.get("domain")
    if not isinstance(name, str) or not name:
        raise InvalidDescriptors("domain", f"expected a name, got {name!r:.40}")
    root = _Node()
    _load(root, document.get("descriptors"), "descriptors", 1)
    dimension = document.get("dimension", "requests")
    if not isinstance(dimension, str) or not dimension.isidentifier():
        raise InvalidDescriptors(
            "dimension", f"expected an identifier, got {dimension!r:.40}"
        )
    return LimitDomain(name, _subjects(document.get("subjects")), dimension, root)


def _ordered(node: _Node, entries: Entries) -> list[tuple[str, str]] | None:
    """Return the entries in the order of the tree, or None; tries each path once."""
    if not entries:
        return [] if node.rule is not None else None
    for place, (key, value) in enumerate(entries):
        found, _ = node.step(key, value)
        if found is None:
            continue
        rest = _ordered(found, [*entries[:place], *entries[place + 1 :]])
        if rest is not None:
            return [(key, value), *rest]
    return None


def _parsed(raw: bytes) -> object:
    if len(raw) > LARGEST_FILE:
        raise InvalidDescriptors("", f"expected at most {LARGEST_FILE} bytes")
    import yaml  # late: only a server of limits needs it

    try:
        text = raw.decode("utf-8")
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise InvalidDescriptors("", "expected YAML without aliases")
        return cast("object", yaml.load(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, InvalidDescriptors):
            raise
        raise InvalidDescriptors(
            "", "expected YAML: " + " ".join(str(error).split())[:300]
        ) from None


def _mapping(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidDescriptors(where, f"expected a mapping, got {value!r:.40}")
    return cast("dict[str, object]", value)


def _list(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidDescriptors(where, f"expected a list, got {value!r:.40}")
    return cast("list[object]", value)


def _flag(table: Mapping[str, object], name: str, where: str) -> bool:
    value = table.get(name, False)
    if not isinstance(value, bool):
        raise InvalidDescriptors(
            f"{where}.{name}", f"expected true or false, got {value!r:.40}"
        )
    return value


def _text(table: Mapping[str, object], name: str, where: str) -> str:
    """Return a text; YAML reads an unquoted 404 as a number, which is meant as text."""
    value = table.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidDescriptors(
            f"{where}.{name}", f"expected a string, got {value!r:.40}"
        )
    return str(value)


def _check_keys(table: Mapping[str, object], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            place = f"{where}.{key}" if where else str(key)
            raise InvalidDescriptors(place, f"expected one of {', '.join(known)}")


def _subjects(value: object) -> Mapping[str, str | None]:
    if value is None:
        return {}
    kinds = tuple(SubjectNames.__annotations__)
    subjects = dict[str, str | None]()
    for key, kind in _mapping(value, "subjects").items():
        if kind is not None and (not isinstance(kind, str) or kind not in kinds):
            raise InvalidDescriptors(
                f"subjects.{key}",
                f"expected null or one of {', '.join(kinds)}, got {kind!r:.40}",
            )
        if kind is not None and kind in subjects.values():
            raise InvalidDescriptors(f"subjects.{key}", f"expected {kind} only once")
        subjects[str(key)] = kind
    return subjects


def _load(node: _Node, value: object, where: str, depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidDescriptors(where, f"expected at most {DEEPEST} levels")
    for number, item in enumerate(_list(value, where)):
        place = f"{where}[{number}]"
        table = _mapping(item, place)
        _check_keys(table, DESCRIPTOR_KEYS, place)
        key, text = _text(table, "key", place), _text(table, "value", place)
        if not key:
            raise InvalidDescriptors(f"{place}.key", "expected a name")
        joined = f"{key}_{text}" if text else key
        if joined in node.children:
            raise InvalidDescriptors(place, f"expected {joined!r} only once")
        child = node.children[joined] = _Node()
        shared = _flag(table, "share_threshold", place)
        if shared and "*" not in joined:
            raise InvalidDescriptors(
                f"{place}.share_threshold", "expected a value with an asterisk"
            )
        if "*" in joined:
            node.wildcards.append((joined.split("*"), joined))
            child.shared_value = joined.removeprefix(f"{key}_") if shared else None
        if table.get("rate_limit") is not None:
            child.rule = _rule(table, place)
        _load(child, table.get("descriptors"), f"{place}.descriptors", depth + 1)


def _rule(table: Mapping[str, object], place: str) -> DescriptorRule:
    where = f"{place}.rate_limit"
    limit = _mapping(table["rate_limit"], where)
    _check_keys(limit, LIMIT_KEYS, where)
    unlimited = _flag(limit, "unlimited", where)
    unit = str(limit.get("unit", "")).lower()
    if not unlimited and unit not in UNITS_S:
        raise InvalidDescriptors(
            f"{where}.unit",
            f"expected one of {', '.join(UNITS_S)}, got {limit.get('unit')!r:.40}",
        )
    if unlimited and unit in UNITS_S:
        raise InvalidDescriptors(f"{where}.unit", "expected no unit with unlimited")
    hits = limit.get("requests_per_unit", 0)
    if (
        isinstance(hits, bool)
        or not isinstance(hits, int)
        or not 0 <= hits <= MOST_HITS
    ):
        raise InvalidDescriptors(
            f"{where}.requests_per_unit",
            f"expected a whole number from 0 to {MOST_HITS}, got {hits!r:.40}",
        )
    name = _text(limit, "name", where)
    replaces = list[str]()
    for number, item in enumerate(_list(limit.get("replaces"), f"{where}.replaces")):
        spot = f"{where}.replaces[{number}]"
        other = _text(_mapping(item, spot), "name", spot)
        if not other or other == name:
            raise InvalidDescriptors(
                f"{spot}.name", "expected the name of another rule"
            )
        replaces.append(other)
    return DescriptorRule(
        requests_per_unit=hits,
        unit=unit or "second",
        unlimited=unlimited,
        shadow=_flag(table, "shadow_mode", place),
        quota_mode=_flag(table, "quota_mode", place),
        name=name,
        replaces=frozenset(replaces),
    )
