"""What a change does, a line for each thing: plans, dry runs and the audit.

``+`` created, ``~`` changed, ``-`` deleted.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypedDict, cast

import typer

from headgate.cli.failure import Failure
from headgate.cli.options.limits import LimitJson, show_limit, show_quantity
from headgate.cli.output.printing import print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headgate.cli.client.rest import JsonObject

NOTHING = "nothing to change"

Document = dict[str, object]

_USUAL: Document = {
    "weight": 1.0,
    "mode": "balanced",
    "may_owe": True,
    "isolation": "fair",
    "refusal": "reject",
    "per_partition": False,
    "split": None,
    "slots": None,
    "per": None,
    "messages": "unlimited",
    "bytes": "unlimited",
    "period_s": 1.0,
    "period": None,
    "time_zone": "UTC",
    "relative_to_publish_rate": False,
    "reason": "",
}
"""Defaults of groups, policies and overrides, which are not shown."""


class ChangeJson(TypedDict):
    """One thing that a revision changed, in the API's JSON."""

    kind: str
    key: str
    before: Document | None
    after: Document | None


def print_plan(plan: JsonObject, as_json: bool) -> None:
    """Print what a plan would change, or did change."""
    if as_json:
        print_json(plan)
        return
    changes = changes_of(plan)
    for line in lines_of(changes):
        print_line(line)
    if plan.get("dry_run"):
        print_line(f"dry run: {summary(changes)}" if changes else NOTHING)
    elif changes:
        print_line(_done(plan))
    else:
        print_line(NOTHING)


def carry_out(
    ask: Callable[[bool], JsonObject], *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Carry out a change; at a terminal, show the plan first and ask for confirmation.

    Args:
        ask: Calls the API, as a dry run or not, and returns its answer.
        dry_run: Show the plan and stop.
        yes: Do not ask for confirmation.
        as_json: Print one JSON document, and do not ask.

    Raises:
        Failure: The API refused, or the user declined.
    """
    if dry_run or yes or as_json or not is_person():
        print_plan(ask(dry_run), as_json)
        return
    plan = ask(True)
    if not changes_of(plan):
        print_line(NOTHING)
        return
    for line in lines_of(changes_of(plan)):
        print_line(line)
    if not typer.confirm(f"{summary(changes_of(plan))}. Continue?"):
        raise Failure("cancelled; nothing was changed")
    done = ask(False)
    if changes_of(done) == changes_of(plan):
        print_line(_done(done))
    else:
        print_line("someone else made changes meanwhile; this is what changed:")
        print_plan(done, as_json=False)


def is_person() -> bool:
    """Return whether somebody at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _done(plan: JsonObject) -> str:
    return f"done: {summary(changes_of(plan))}; revision {plan.get('revision')}"


def changes_of(plan: JsonObject) -> list[ChangeJson]:
    """Return the changes in a plan or in an audit entry."""
    return cast("list[ChangeJson]", plan.get("changes", []))


def summary(changes: list[ChangeJson]) -> str:
    """Return how many objects are created, changed and deleted.

    >>> summary([{"kind": "group", "key": "g", "before": None, "after": {}}])
    '1 created, 0 changed, 0 deleted'
    """
    created = sum(one["before"] is None for one in changes)
    deleted = sum(one["after"] is None for one in changes)
    changed = len(changes) - created - deleted
    return f"{created} created, {changed} changed, {deleted} deleted"


def lines_of(changes: Iterable[ChangeJson]) -> Iterator[str]:
    """Yield a line for each change, with aligned details."""
    rows = [(_sign(one), name_of(one), details(one)) for one in changes]
    width = min(64, max((len(name) for _, name, _ in rows), default=0))
    for sign, name, told in rows:
        yield f"{sign} {name:<{width}}  {told}".rstrip()


def name_of(change: ChangeJson) -> str:
    """Return the kind and name of the changed object.

    >>> name_of({"kind": "attachment", "key": '[["tenant","acme"]]',
    ...          "before": None, "after": {"group": "gold"}})
    'attachment tenant acme'
    """
    kind, key = change["kind"], change["key"]
    try:
        parts: object = json.loads(key) if key.startswith(("[", "{")) else key
    except ValueError:
        parts = key
    return f"{kind} {_words(parts)}".rstrip()


def details(change: ChangeJson) -> str:
    """Return the new object, the differences, or the deleted object."""
    before, after = change["before"], change["after"]
    if before is None:
        return _described(after or {})
    if after is None:
        told = _described(before)
        return f"was {told}" if told else ""
    return "; ".join(_differences(before, after))


def _sign(change: ChangeJson) -> str:
    if change["before"] is None:
        return "+"
    return "-" if change["after"] is None else "~"


def _words(parts: object) -> str:
    """Return a key's JSON in words: a subject, a policy or an override."""
    if isinstance(parts, dict):
        named = cast("dict[str, object]", parts)
        return ", ".join(f"{kind} {_words(name)}" for kind, name in named.items())
    if isinstance(parts, list):
        listed = cast("list[object]", parts)
        pairs = bool(listed) and all(isinstance(one, list) for one in listed)
        return (", " if pairs else " ").join(_words(one) for one in listed).strip()
    return "*" if parts is None else str(parts)


def _described(document: Document) -> str:
    limits = [show_limit(one) for one in _limits(document)]
    others = [
        _named(name, value)
        for name, value in document.items()
        if name != "limits"
        and value not in (None, [], {})
        and _USUAL.get(name) != value
    ]
    return ", ".join([*limits, *others])


def _differences(before: Document, after: Document) -> Iterator[str]:
    old, new = _by_key(before), _by_key(after)
    for key in {**old, **new}:
        if key not in new:
            yield f"without {show_limit(old[key])}"
        elif key not in old:
            yield f"with {show_limit(new[key])}"
        elif old[key] != new[key]:
            yield f"{show_limit(old[key])} → {show_limit(new[key])}"
    for name in {**before, **after}:
        was, shall = before.get(name), after.get(name)
        if name != "limits" and was != shall:
            yield f"{_named(name, was)} → {_shown(name, shall)}"


def _limits(document: Document) -> list[LimitJson]:
    return cast("list[LimitJson]", document.get("limits", []))


def _by_key(document: Document) -> dict[tuple[str, str], LimitJson]:
    return {
        (one.get("dimension", ""), one.get("scope", "cluster")): one
        for one in _limits(document)
    }


def _named(name: str, value: object) -> str:
    """Return a setting with its name, unless the value speaks for itself."""
    shown = _shown(name, value)
    if name == "text":
        return shown
    return f"until {shown}" if name == "ends_at_s" else f"{name} {shown}"


def _shown(name: str, value: object) -> str:
    if name.endswith("_at_s") and isinstance(value, float):
        from headgate.cli.options.times import show_time

        return show_time(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return show_quantity(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return "none" if value is None else str(value)
