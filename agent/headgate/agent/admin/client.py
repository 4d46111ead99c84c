"""`Admin`, with which a program creates groups, sets limits and attaches tenants.

::

    with headgate.Admin("http://127.0.0.1:8080") as admin:
        admin.put_group("gold", [headgate.LimitSpec("requests", rate=1000)])
        admin.put_tenant("acme")
        admin.attach("gold", tenant="acme")

It does over REST what the command ``headgate`` does, and waits for each answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, cast

from headgate.agent.admin.connection import AdminConnection, AdminError
from headgate.agent.admin.records import (
    AppliedPlan,
    AttachedNames,
    AttachmentRecord,
    AuditRecord,
    GroupOptions,
    GroupRecord,
    LimitSpec,
    SlotsRecord,
    attachment_from_json,
    audit_from_json,
    group_from_json,
    plan_from_json,
    quantity,
    slots_from_json,
)
from headgate.agent.errors import MalformedSnapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from headgate.agent.json_place import Json, JsonPlace
    from headgate.coordinator.config.configuration import Period, Scope

Record = TypeVar("Record")

TIMEOUT_S = 30.0
"""Longest wait for an answer; the API usually answers within milliseconds."""

APPLY_TIMEOUT_S = 600.0
"""The same for `Admin.apply` and `Admin.export`: 100,000 attachments take a while."""


class Admin:
    """A client of the REST API; a context manager that closes its connection.

    Every method waits for the API and raises `AdminError` if the API refuses, fails or
    does not answer.  Use it from one thread at a time.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Prepare the connection; nothing is sent yet.

        Args:
            url: Such as ``http://127.0.0.1:8080``.
            token: Bearer token, if the API requires one.
            ca_file: PEM file of the certificate authorities to trust when the API
                speaks TLS; the system's by default.
            timeout_s: Longest wait for an answer, seconds.

        Raises:
            InvalidSetting: An argument is wrong; says which one.
        """
        self._api = AdminConnection(
            url, token=token, ca_file=ca_file, timeout_s=timeout_s
        )
        self._url = url.rstrip("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    # Groups and limits

    def groups(self) -> Iterator[GroupRecord]:
        """Yield all groups that this token may see, in order of their names."""
        return self._each(self._api.pages("groups"), group_from_json)

    def group(self, name: str) -> GroupRecord:
        """Return a group; raises an `AdminError` of status 404 if there is none."""
        return self._one(self._api.call("GET", "groups", name), group_from_json)

    def put_group(
        self,
        name: str,
        limits: Sequence[LimitSpec],
        *,
        revision: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> GroupRecord:
        """Create a group or replace it as a whole; what is left out gets its default.

        Args:
            name: Unique, at most 256 characters, no slash.
            limits: At most one per dimension and scope.
            revision: Only replace the group if this revision last changed it; the
                error has status 412 otherwise.
            options: See `GroupOptions`.
        """
        body = _group_body(limits, options)
        if revision is not None:
            body["revision"] = revision
        return self._one(
            self._api.call("PUT", "groups", name, body=body), group_from_json
        )

    def update_group(
        self,
        name: str,
        limits: Sequence[LimitSpec] | None = None,
        **options: Unpack[GroupOptions],
    ) -> GroupRecord:
        """Change what is given, and leave the rest as it is.

        A limit replaces the one of its dimension and scope; others stay.
        """
        body = _group_body(limits, options)
        return self._one(
            self._api.call("PATCH", "groups", name, body=body), group_from_json
        )

    def set_limit(
        self,
        group: str,
        dimension: str,
        rate: float,
        *,
        burst: float | None = None,
        period_s: float | None = None,
        period: Period | None = None,
        time_zone: str | None = None,
        scope: Scope = "cluster",
    ) -> GroupRecord:
        """Set one limit of a group; it takes effect everywhere within a second.

        Args:
            group: Its name.
            dimension: What is counted, such as ``requests``.
            rate: Units per period; ``math.inf`` for no limit.
            burst: Units that may pass at once after a quiet time.  By default it stays
                as it is, or follows the rate if it was equal to it.
            period_s: Seconds that `rate` counts for; stays as it is by default.
            period: A calendar period instead, such as ``month``.
            time_zone: Where calendar periods begin; stays as it is by default.
            scope: ``cluster``, or ``node`` for a limit that each agent has to itself.
        """
        patch: dict[str, Json] = {"dimension": dimension, "scope": scope}
        patch["rate"] = quantity(rate)
        if burst is not None:
            patch["burst"] = quantity(burst)
        if period_s is not None:
            patch["period_s"] = period_s
        if period is not None:
            patch["period"] = period
        if time_zone is not None:
            patch["time_zone"] = time_zone
        return self._patch_limit(group, patch)

    def remove_limit(
        self, group: str, dimension: str, *, scope: Scope = "cluster"
    ) -> GroupRecord:
        """Remove one limit of a group, which then no longer limits the dimension."""
        patch: dict[str, Json] = {"dimension": dimension, "scope": scope, "rate": None}
        return self._patch_limit(group, patch)

    def slots(self, group: str) -> SlotsRecord:
        """Return how many requests of a group are in flight now, and by which agents.

        `put_group` and `update_group` set how many may be: ``slots=20``.
        """
        return self._one(
            self._api.call("GET", "groups", group, "slots"), slots_from_json
        )

    def delete_group(self, name: str) -> None:
        """Delete a group; status 409 while something is attached to it."""
        self._api.call("DELETE", "groups", name)

    # Tenants and namespaces

    def tenants(self) -> Iterator[str]:
        """Yield the names of all tenants, in order."""
        return self._each(self._api.pages("tenants"), lambda one: one["name"].text())

    def put_tenant(self, name: str) -> None:
        """Create a tenant; does nothing if it exists."""
        self._exist("tenants", name)

    def delete_tenant(self, name: str) -> None:
        """Delete a tenant and its attachment; status 409 while it has namespaces."""
        self._api.call("DELETE", "tenants", name)

    def namespaces(self, tenant: str) -> Iterator[str]:
        """Yield the namespaces of a tenant, such as ``orders``, in order."""
        pages = self._api.pages("namespaces", tenant)
        return self._each(pages, lambda one: one["name"].text())

    def put_namespace(self, tenant: str, name: str) -> None:
        """Create a namespace of a tenant; does nothing if it exists."""
        self._exist("namespaces", tenant, name)

    def delete_namespace(self, tenant: str, name: str) -> None:
        """Delete a namespace and its attachment."""
        self._api.call("DELETE", "namespaces", tenant, name)

    # Attachments

    def attachments(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        group: str | None = None,
    ) -> Iterator[AttachmentRecord]:
        """Yield attachments: all, or those of a kind, a name or a group."""
        given = {"kind": kind, "name": name, "group": group}
        query = {key: value for key, value in given.items() if value is not None}
        return self._each(
            self._api.pages("attachments", query=query), attachment_from_json
        )

    def attach(self, group: str, **subject: Unpack[AttachedNames]) -> AttachmentRecord:
        """Attach a subject to a group; it leaves the group that it was in before.

        Args:
            group: Its name.
            subject: Such as ``tenant="acme"`` or ``namespace="acme/orders"``; a name
                of None is the default of its kind.  See `AttachedNames`.
        """
        body: dict[str, Json] = {"subject": cast("Json", subject), "group": group}
        return self._one(
            self._api.call("PUT", "attachments", body=body), attachment_from_json
        )

    def detach(self, **subject: Unpack[AttachedNames]) -> None:
        """Detach a subject; status 404 if it is attached to nothing."""
        names = cast("dict[str, str | None]", subject)
        query = {kind: name or "" for kind, name in names.items()}
        self._api.call("DELETE", "attachments", query=query)

    # Everything at once

    def apply(
        self, quotas: Mapping[str, Json] | str, *, dry_run: bool = False
    ) -> AppliedPlan:
        """Bring everything that `quotas` names into that state, or nothing.

        Args:
            quotas: What ``headgate apply -f`` reads: a mapping, or the text of a file
                in YAML or JSON.
            dry_run: Only return what would change.
        """
        body: Json | bytes
        body = quotas.encode() if isinstance(quotas, str) else dict(quotas)
        query: dict[str, str | int] = {"dry_run": "true"} if dry_run else {}
        answer = self._api.call(
            "POST", "apply", body=body, query=query, timeout_s=APPLY_TIMEOUT_S
        )
        return self._one(answer, plan_from_json)

    def export(self) -> dict[str, Json]:
        """Return everything as one document that `apply` accepts.

        All of it belongs to one revision; tokens are not part of it, and defaults are
        left out.
        """
        answer = self._api.call("GET", "export", timeout_s=APPLY_TIMEOUT_S)
        return {name: place.value for name, place in answer.fields()}

    def audit(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        author: str | None = None,
    ) -> Iterator[AuditRecord]:
        """Yield revisions, newest first: all, or those of one thing or one author.

        Args:
            kind: Kind of the changed object, such as ``group``.
            key: A group's name, or a subject as JSON.
            author: Subject of the token.
        """
        given = {"kind": kind, "key": key, "author": author}
        query = {name: value for name, value in given.items() if value is not None}
        return self._each(self._api.pages("audit", query=query), audit_from_json)

    def _exist(self, *steps: str) -> None:
        """Create something that has no settings here; keep it if it exists."""
        try:
            self._api.call("GET", *steps)
        except AdminError as error:
            if error.status != 404:
                raise
            self._api.call("PUT", *steps)

    def _patch_limit(self, group: str, patch: dict[str, Json]) -> GroupRecord:
        body: dict[str, Json] = {"limits": [patch]}
        return self._one(
            self._api.call("PATCH", "groups", group, body=body), group_from_json
        )

    def _each(
        self, places: Iterator[JsonPlace], read: Callable[[JsonPlace], Record]
    ) -> Iterator[Record]:
        for place in places:
            yield self._one(place, read)

    def _one(self, place: JsonPlace, read: Callable[[JsonPlace], Record]) -> Record:
        """Parse an answer with `read`; a wrong answer is an `AdminError`."""
        try:
            return read(place)
        except MalformedSnapshot as error:
            raise AdminError(self._url, f"malformed answer: {error}") from error


def _group_body(
    limits: Sequence[LimitSpec] | None, options: GroupOptions
) -> dict[str, Json]:
    body = cast("dict[str, Json]", dict(options))
    if limits is not None:
        body["limits"] = _limits_json(limits)
    return body


def _limits_json(limits: object) -> Json:
    """Return limits as the API reads them; it refuses whatever else is given."""
    if isinstance(limits, str) or not isinstance(limits, Iterable):
        return cast("Json", limits)
    given = cast("Iterable[object]", limits)
    return [
        one.to_json() if isinstance(one, LimitSpec) else cast("Json", one)
        for one in given
    ]
