"""What a change to a group would do to its current users."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headgate.cli.client.paths import PREVIEW
from headgate.cli.failure import Failure, Misused
from headgate.cli.options.limits import LimitJson
from headgate.cli.output.plan import changes_of, lines_of, summary
from headgate.cli.output.printing import print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headgate.cli.client.rest import JsonObject, Rest


def print_preview(
    rest: Rest,
    name: str,
    body: Mapping[str, object],
    as_json: bool,
    *,
    is_new: bool = False,
) -> None:
    """Print what would happen if the group were as in `body`.

    Raises:
        Failure: The new group already exists, or the API does not answer.
    """
    preview = rest.call("POST", PREVIEW, body={"group": name, "body": body})
    is_created = any(change["before"] is None for change in changes_of(preview))
    if is_new and not is_created:
        raise Failure(f"group {name!r} already exists")
    if as_json:
        print_json(preview)
        return
    changes = changes_of(preview)
    for line in lines_of(changes):
        print_line(line)
    for one in cast("list[JsonObject]", preview.get("limits", [])):
        print_line(f"  {one.get('dimension')}: {one.get('sentence')}")
    print_line(f"dry run: {summary(changes)}")


def changed_group(as_it_is: JsonObject, said: Mapping[str, object]) -> JsonObject:
    """Return a whole group as it would be after a change.

    Limits are merged by dimension and scope, as in the API: a rate of None removes a
    limit, and a burst that equals the rate follows it.

    >>> changed_group({"limits": [{"dimension": "a", "rate": 1.0, "burst": 3.0}]},
    ...               {"limits": [{"dimension": "a", "rate": 2.0}]})
    {'limits': [{'dimension': 'a', 'rate': 2.0, 'burst': 3.0}]}
    """
    merged = {_key(one): one for one in _limits(as_it_is)}
    for one in _limits(said):
        old = LimitJson(**merged.pop(_key(one), {}))
        if old.get("burst") == old.get("rate") or one.get("rate") == 0:
            old.pop("burst", None)
        whole = cast("LimitJson", {**old, **one})
        if whole.get("rate") is not None:
            merged[_key(one)] = whole
    return {**as_it_is, **said, "limits": list(merged.values())}


def check_removed(as_it_is: JsonObject, removed: Iterable[LimitJson]) -> None:
    """Refuse to remove a limit that the group does not have.

    >>> check_removed({"name": "g", "limits": [{"dimension": "a"}]},
    ...               [{"dimension": "b", "rate": None}])
    Traceback (most recent call last):
    headgate.cli.failure.Misused: --remove-limit b: group g limits only a

    Raises:
        Misused: The group does not have that limit.
    """
    there = [_key(one) for one in _limits(as_it_is)]
    for one in removed:
        if _key(one) not in there:
            names = ", ".join(_named(*key) for key in there) or "nothing"
            raise Misused(
                f"--remove-limit {_named(*_key(one))}: group {as_it_is['name']} "
                f"limits only {names}"
            )


def _named(dimension: str, scope: str) -> str:
    return dimension if scope == "cluster" else f"{dimension},scope={scope}"


def _limits(group: Mapping[str, object]) -> list[LimitJson]:
    return cast("list[LimitJson]", group.get("limits", []))


def _key(limit: LimitJson) -> tuple[str, str]:
    return limit.get("dimension", ""), limit.get("scope", "cluster")
