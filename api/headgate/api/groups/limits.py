"""The limits of one group: checked, and merged with a change."""

from collections.abc import Sequence

from pydantic import ValidationError

from headgate.agent.follow.periods import UnknownTimeZone, zone_of
from headgate.api.groups.schemas import MAX_LIMITS, GroupBody, LimitBody, LimitPatch
from headgate.api.values.errors import Invalid
from headgate.api.values.names import checked_dimension
from headgate.coordinator.config.configuration import (
    LEAST_PERIOD_S,
    UNLIMITED,
    InvalidConfiguration,
    Limit,
)

KEEP = "expected a value; omit it to keep the present one"
"""Why null is refused where a patch would ignore it."""

_NEVER_NULL = ("period_s", "time_zone", "minimum", "maximum")
"""Members of a limit that are never shown as null; the others may be sent back so."""


def limits_of(body: GroupBody) -> list[Limit]:
    """Return the limits that a group asks for.

    Raises:
        Invalid: One can't be accepted, or the group counts by partition and none of
            its limits can.
    """
    limits = checked_limits(body.limits)
    if body.mode == "strict" and any(limit.period for limit in limits):
        raise Invalid(
            "mode", "expected balanced: strict groups can't have calendar periods"
        )
    if body.per is not None and (body.mode == "strict" or body.slots is not None):
        raise Invalid("per", "expected null with mode strict, and with slots")
    if body.per_partition and limits and all(x.scope != "node" for x in limits):
        raise Invalid(
            "per_partition",
            "expected a limit of scope node: those of scope cluster are shared by all "
            "partitions",
        )
    return limits


def checked_limits(bodies: Sequence[LimitBody]) -> list[Limit]:
    """Return the limits that `bodies` ask for.

    Raises:
        Invalid: One can't be accepted, or is given twice.
    """
    if len(bodies) > MAX_LIMITS:
        raise Invalid("limits", f"expected at most {MAX_LIMITS} limits")
    limits: list[Limit] = []
    seen: set[tuple[str, str]] = set()
    for index, body in enumerate(bodies):
        at = f"limits[{index}]"
        checked_dimension(body.dimension, f"{at}.dimension")
        if (body.dimension, body.scope) in seen:
            raise Invalid(at, "expected at most one limit per dimension and scope")
        seen.add((body.dimension, body.scope))
        if body.minimum == UNLIMITED:
            raise Invalid(f"{at}.minimum", "expected a finite number")
        values = body.model_dump(mode="python")
        values["burst"] = body.rate if body.burst is None else body.burst
        try:
            zone_of(body.time_zone)
            limits.append(Limit(**values))
        except UnknownTimeZone as error:
            raise Invalid(f"{at}.time_zone", str(error)) from error
        except InvalidConfiguration as error:
            raise Invalid(f"{at}.{error.field}", error.reason) from error
    return limits


def merged_limits(
    present: Sequence[LimitBody], patches: Sequence[LimitPatch]
) -> list[LimitBody]:
    """Return `present` with `patches` applied; a rate of null removes a limit.

    Raises:
        Invalid: A patch without a rate is for a limit that does not exist, a limit
            would have members that exclude each other, or one would be null.
    """
    limits = {(limit.dimension, limit.scope): limit for limit in present}
    for index, patch in enumerate(patches):
        key = (patch.dimension, patch.scope)
        if "rate" in patch.model_fields_set and patch.rate is None:
            limits.pop(key, None)
            continue
        _refuse_nulls(patch, f"limits[{index}]")
        given = patch.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        old = limits.get(key)
        if old is None and patch.rate is None:
            raise Invalid(f"limits[{index}].rate", "expected a rate for a new limit")
        if old is not None:
            given = {**_kept(old, patch, f"limits[{index}]"), **given}
        try:
            limits[key] = LimitBody.model_validate(given)
        except ValidationError as error:  # what was patched doesn't go with the rest
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise Invalid(f"limits[{index}]", reason) from error
    for limit in limits.values():
        _refuse_short_period(limit, "limits")
    return list(limits.values())


def _kept(old: LimitBody, patch: LimitPatch, at: str) -> dict[str, object]:
    """Return the members of `old` that apply where `patch`, at `at`, has none."""
    kept = old.model_dump(mode="json")
    if patch.period_s is None and patch.period is None:
        _refuse_short_period(old, f"{at}.period_s")
    if patch.period_s is not None and patch.period is None:
        kept["period"] = None
    if patch.period is not None or kept["period"] is not None:
        kept["period_s"], kept["burst"] = 1.0, None  # both follow it
    kafkas = patch.samples is not None or patch.window_s is not None
    if old.burst == old.rate or patch.rate == 0 or kafkas:
        kept["burst"] = None  # so that the default applies
    return kept


def _refuse_short_period(limit: LimitBody, field: str) -> None:
    """Refuse to keep a period that an earlier version accepted, and agents don't."""
    if limit.period_s < LEAST_PERIOD_S:
        raise Invalid(
            field,
            f"expected a period_s of at least {LEAST_PERIOD_S:g} for {limit.dimension}"
            f" ({limit.scope}), which is stored with {limit.period_s:g}",
        )


def _refuse_nulls(patch: LimitPatch, at: str) -> None:
    for field in _NEVER_NULL:
        if field in patch.model_fields_set and getattr(patch, field) is None:
            raise Invalid(f"{at}.{field}", KEEP)
