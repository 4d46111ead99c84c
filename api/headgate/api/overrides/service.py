"""Operations on overrides, inside one transaction."""

import json
import time
from collections.abc import Iterable, Mapping

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from headgate.api.overrides.schemas import (
    MAX_LIFE_S,
    OverridePage,
    OverridePut,
    OverrideShown,
)
from headgate.api.rights.visibility import Tenants, visible_groups
from headgate.api.store import Author, Change, Store
from headgate.api.store.tables import GroupRow, LimitRow, OverrideRow
from headgate.api.values.body_paths import place_of, place_text
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.names import checked_dimension
from headgate.api.values.preconditions import ANYTHING, Precondition
from headgate.api.values.quantities import restored, shown
from headgate.coordinator import LEAST_UNITS

ENDED = Author(name="headgate", address="local", action="an override ended")
"""Author recorded when an override ends because its time has come."""

ALL = ""
"""How the store says "all dimensions of a group"."""


def list_overrides(
    session: Session,
    *,
    after: str,
    limit: int,
    group: str | None = None,
    tenants: Tenants = None,
) -> OverridePage:
    """Return up to `limit` overrides after the place `after`, by group, dimension.

    With `tenants`, only those of groups that their operators may see.
    """
    query = select(OverrideRow).order_by(OverrideRow.group, OverrideRow.dimension)
    if group is not None:
        query = query.where(OverrideRow.group == group)
    if tenants is not None:
        visible = visible_groups(session, tenants)
        query = query.where(OverrideRow.group.in_(visible))
    if after:
        place = tuple_(OverrideRow.group, OverrideRow.dimension)
        query = query.where(place > tuple_(*place_of(after, parts=2)))
    rows = session.scalars(query.limit(limit + 1)).all()
    more = rows[limit - 1] if len(rows) > limit else None
    return OverridePage(
        items=[_shown(row) for row in rows[:limit]],
        next=None if more is None else place_text(more.group, more.dimension),
    )


def put_override(
    change: Change, wanted: OverridePut, precondition: Precondition = ANYTHING
) -> OverrideShown:
    """Set an override of a group, replacing the one for the same dimension.

    Raises:
        NotFound: The group does not exist.
        Outdated: The override does not match `precondition`.
        Invalid: It has neither or both of factor and rate, or of the two ends, or
            there is no limit that it could change.
    """
    document = override_document(wanted)
    key = override_key(wanted.group, wanted.dimension)
    precondition.check(_revision(change.session, key))
    row = write_override(change, key, document)
    check_limited(change.session, wanted, "dimension")
    return _shown(row)


def check_limited(session: Session, wanted: OverridePut, field: str) -> None:
    """Check that the group of an override limits its dimension.

    Raises:
        Invalid: It does not; the reason is that of `field`.
    """
    limited = limited_dimensions(session, wanted.group)
    if wanted.dimension is not None and wanted.dimension not in limited:
        only = f"only {', '.join(limited)}" if limited else "nothing"
        raise Invalid(field, f"group {wanted.group!r} limits {only}")


def limited_dimensions(session: Session, group: str) -> list[str]:
    """Return what a group limits, in order; nothing if it does not exist."""
    query = select(LimitRow.dimension).join(GroupRow).where(GroupRow.name == group)
    return sorted(set(session.scalars(query)))


def override_document(wanted: OverridePut) -> dict[str, object]:
    """Return an override as the audit keeps it.

    Raises:
        Invalid: It has neither or both of factor and rate, or of the two ends.
    """
    if (wanted.factor is None) == (wanted.rate is None):
        raise Invalid("factor", "expected either a factor or a rate")
    if wanted.dimension is not None:
        checked_dimension(wanted.dimension, "dimension")
    elif wanted.rate is not None:
        raise Invalid("rate", "expected only with a dimension")
    return {
        "factor": wanted.factor,
        "rate": None if wanted.rate is None else shown(wanted.rate),
        "ends_at_s": _end(wanted),
        "reason": wanted.reason,
    }


def write_override(
    change: Change, key: str, document: Mapping[str, object]
) -> OverrideRow:
    """Store the override of `key`, as the audit keeps it.

    Raises:
        NotFound: The group does not exist.
    """
    group, dimension = override_parts(key)
    session = change.session
    query = select(GroupRow.id).where(GroupRow.name == group)
    if session.scalars(query).one_or_none() is None:
        raise NotFound("group", group)
    row = session.get(OverrideRow, (group, dimension))
    before = None if row is None else row.document
    if row is None:
        row = OverrideRow(group=group, dimension=dimension, revision=change.revision)
        session.add(row)
    row.document = dict(document)
    row.ends_at_s = float(str(document["ends_at_s"]))
    if change.record("override", key, before=before, after=row.document):
        row.revision = change.revision
    session.flush()
    return row


def delete_override(
    change: Change, key: str, precondition: Precondition = ANYTHING
) -> bool:
    """End the override of `key`; return whether there was one.

    Raises:
        Outdated: It does not match `precondition`.
    """
    precondition.check(_revision(change.session, key))
    row = change.session.get(OverrideRow, override_parts(key))
    if row is None:
        return False
    change.session.delete(row)
    change.session.flush()
    change.record("override", key, before=row.document, after=None)
    return True


def delete_overrides_of(change: Change, group: str) -> None:
    """End all overrides of a group that is about to be deleted."""
    query = select(OverrideRow.dimension).where(OverrideRow.group == group)
    for dimension in change.session.scalars(query).all():
        delete_override(change, override_key(group, dimension))


def next_end_s(session: Session) -> float | None:
    """Return when the next override ends, seconds since the epoch."""
    query = select(OverrideRow.ends_at_s).order_by(OverrideRow.ends_at_s).limit(1)
    return session.scalars(query).one_or_none()


def end_overdue(store: Store) -> None:
    """End all overrides whose time has come."""
    with store.changing(ENDED) as change:
        query = select(OverrideRow).where(OverrideRow.ends_at_s <= time.time())
        for row in change.session.scalars(query).all():
            delete_override(change, override_key(row.group, row.dimension))


def override_key(group: str, dimension: str | None) -> str:
    """Return the text that names an override in the audit."""
    return json.dumps(
        [group, dimension or ALL], ensure_ascii=False, separators=(",", ":")
    )


def overridden_groups(keys: Iterable[str]) -> set[str]:
    """Return the groups that overrides of these keys belong to."""
    return {override_parts(key)[0] for key in keys}


class Overridden:
    """The limits of a session's groups, as the overrides in force make them."""

    def __init__(self, documents: Mapping[str, Mapping[str, object]]) -> None:
        """Use the overrides in `documents`, by key as the audit names them."""
        self._found = {override_parts(key): found for key, found in documents.items()}

    @classmethod
    def now(cls, session: Session) -> "Overridden":
        """Return the combined effect of all overrides in force."""
        return cls(
            {
                override_key(row.group, row.dimension): row.document
                for row in session.scalars(select(OverrideRow))
            }
        )

    def rate_and_burst(
        self, group: str, dimension: str, rate: float, burst: float
    ) -> tuple[float, float]:
        """Return rate and burst of a limit; an override of its own dimension wins."""
        if not self._found:
            return rate, burst
        found = self._found.get((group, dimension), self._found.get((group, ALL)))
        if found is None:
            return rate, burst
        if found["factor"] is not None:
            factor = float(str(found["factor"]))
            return _scaled(rate, factor), _scaled(burst, factor)
        wanted = found["rate"]
        new = restored(None if wanted == "unlimited" else float(str(wanted)))
        follows = burst == rate or not 0 < rate < float("inf")
        scaled = new if follows else max(burst * new / rate, LEAST_UNITS)
        return new, new if new in {0.0, float("inf")} else scaled


def _scaled(units: float, factor: float) -> float:
    """Return `units` times `factor`; too few for a limit are as few as it can have.

    Agents refuse a whole configuration in which a limit has fewer.
    """
    if units == 0 or factor == 0:  # also where the other is infinite
        return 0.0
    return max(units * factor, LEAST_UNITS)


def _end(wanted: OverridePut) -> float:
    now = time.time()
    if (wanted.until is None) == (wanted.for_s is None):
        raise Invalid("until", "expected either until or for_s")
    if wanted.for_s is not None:
        return round(now + wanted.for_s, 3)  # milliseconds, as in a file
    assert wanted.until is not None
    ends_at_s = wanted.until.timestamp()
    if not now < ends_at_s <= now + MAX_LIFE_S:
        raise Invalid("until", "expected a time within the next 366 days")
    return round(ends_at_s, 3)


def _revision(session: Session, key: str) -> int | None:
    row = session.get(OverrideRow, override_parts(key))
    return None if row is None else row.revision


def override_parts(key: str) -> tuple[str, str]:
    """Return group and dimension of an override's key; an empty one means all."""
    group, dimension = json.loads(key)
    return group, dimension


def _shown(row: OverrideRow) -> OverrideShown:
    rate = row.document["rate"]
    return OverrideShown.model_validate(
        {
            "group": row.group,
            "dimension": row.dimension or None,
            "factor": row.document["factor"],
            "rate": float("inf") if rate == "unlimited" else rate,
            "ends_at_s": row.ends_at_s,
            "reason": row.document["reason"],
            "revision": row.revision,
        }
    )
