"""Paths of the REST API that more than one command uses.

Nothing here connects, so a command can import it before it runs.
"""

from __future__ import annotations

from urllib.parse import quote

from headgate.cli.failure import Misused

AGENTS = "/api/v1/agents"
"""Which agents are alive, and what they last reported."""

APPLY = "/api/v1/apply"
"""Takes a desired state and answers with a plan."""

ATTACHMENTS = "/api/v1/attachments"

CLUSTERS = "/admin/v2/clusters"
"""The name of the cluster, as Pulsar asks for it."""

GROUPS = "/api/v1/groups"

NAMESPACES = "/api/v1/namespaces"

OVERVIEW = "/api/v1/overview"
"""Every limit at a glance."""

PREVIEW = "/api/v1/preview"
"""Takes a change of a group and answers with what it would do."""

SETTINGS = "/api/v1/settings"
"""The dynamic configuration, by Pulsar's names."""

TENANTS = "/api/v1/tenants"


def group_path(name: str) -> str:
    """Return the path of a group.

    Raises:
        Misused: No path can hold the name.
    """
    return f"{GROUPS}/{segment(name)}"


def segment(name: str) -> str:
    """Return `name` as one segment of a path.

    >>> segment("50 % off")
    '50%20%25%20off'

    Raises:
        Misused: No path can hold it.
    """
    if name in {"", ".", ".."}:
        raise Misused(f"{name!r}: expected a name; it is empty, . or ..")
    if "/" in name:  # servers decode %2F before they route
        raise Misused(f"{name!r}: expected a name without a slash")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:  # the shell passed bytes that are not UTF-8
        raise Misused(f"{name!a}: expected a name in UTF-8") from error
