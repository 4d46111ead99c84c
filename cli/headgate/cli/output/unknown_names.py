"""Warnings about names of tenants and clusters that the API accepts but doesn't know.

A group may name tenants that are yet to be created, and a file of quotas may hold
attachments of several clusters, so such a name is no error; it may be a typo.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from headgate.cli.client.paths import CLUSTERS, TENANTS, segment
from headgate.cli.failure import Failure, RefusedByApi

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.cli.client.rest import Rest

MOST_COMPARED = 10_000
"""Tenants that a wrong name is compared with."""


def warn_of_tenants(rest: Rest, names: Iterable[str]) -> None:
    """Write a line to stderr for each of `names` that no tenant has."""
    for name in dict.fromkeys(names):
        with suppress(Failure):  # who may not read tenants is told nothing of them
            if _is_tenant(rest, name):
                continue
            tenants = islice(rest.pages(TENANTS), MOST_COMPARED)
            known = [str(one["name"]) for one in tenants]
            _warn(f"there is no tenant {name!r} yet{_suggestion(name, known)}")


def warn_of_cluster(rest: Rest, name: str) -> None:
    """Write a line to stderr if the API is not that of the cluster `name`."""
    with suppress(Failure):
        known = rest.texts(CLUSTERS)
        if known and name not in known:
            _warn(
                f"the API is that of cluster {known[0]!r}; an attachment of cluster "
                f"{name!r} has no effect here"
            )


def _is_tenant(rest: Rest, name: str) -> bool:
    try:
        rest.call("GET", f"{TENANTS}/{segment(name)}")
    except RefusedByApi as error:
        if "does not exist" in str(error):
            return False
        raise
    return True


def _suggestion(name: str, among: list[str]) -> str:
    from difflib import get_close_matches  # late: only a typo needs it

    similar = " or ".join(repr(one) for one in get_close_matches(name, among))
    return f" (did you mean {similar}?)" if similar else ""


def _warn(line: str) -> None:
    sys.stderr.write(f"headgate: warning: {line}\n")
    sys.stderr.flush()
