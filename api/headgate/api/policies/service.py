"""Operations on policies and settings, inside one transaction."""

import json
from collections.abc import Collection, Iterable

from sqlalchemy import false, or_, select, tuple_
from sqlalchemy.orm import Session

from headgate.agent.follow.subject import partitioned_topic
from headgate.api.attachments.subjects import checked_subject
from headgate.api.policies.broker import (
    broker_policies,
    check_setting,
    check_together,
    dispatch_options,
)
from headgate.api.policies.schemas import (
    EffectivePolicy,
    Kind,
    Level,
    Policy,
    PolicyPage,
    PolicyPut,
    PolicyShown,
    SettingShown,
)
from headgate.api.store import Change
from headgate.api.store.tables import NamespaceRow, PolicyRow, SettingRow, is_below
from headgate.api.values.body_paths import place_of, place_text
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.preconditions import ANYTHING, Precondition


def list_policies(
    session: Session,
    *,
    after: str,
    limit: int,
    level: Level | None = None,
    target: str | None = None,
    tenants: Collection[str] | None = None,
) -> PolicyPage:
    """Return up to `limit` policies after the place `after`, by level and target.

    With `tenants`, only those of their namespaces and topics.
    """
    place = (PolicyRow.level, PolicyRow.target, PolicyRow.kind)
    query = select(PolicyRow)
    if after:
        query = query.where(tuple_(*place) > tuple_(*place_of(after, parts=3)))
    if level is not None:
        query = query.where(PolicyRow.level == level)
    if target is not None:
        query = query.where(PolicyRow.target == target)
    if tenants is not None:
        named = [is_below(PolicyRow.target, tenant) for tenant in tenants]
        query = query.where(or_(false(), *named))
    rows = session.scalars(query.order_by(*place).limit(limit + 1)).all()
    last = rows[limit - 1] if len(rows) > limit else None
    return PolicyPage(
        items=[_shown(row) for row in rows[:limit]],
        next=None if last is None else place_text(last.level, last.target, last.kind),
    )


def get_policy(
    session: Session, level: Level, target: str, kind: Kind
) -> Policy | None:
    """Return the policy that is set exactly there, or None."""
    row = session.get(PolicyRow, (level, checked_target(level, target), kind))
    return None if row is None else Policy.stored(row.policy)


def effective_policy(session: Session, topic: str, kind: Kind) -> EffectivePolicy:
    """Return what applies to `topic`: its own, its namespace's, the broker's.

    A partition has its topic's, unless one is set on the partition itself.
    """
    topic = checked_target("topic", topic)
    for name in (topic, partitioned_topic(topic)):
        own = get_policy(session, "topic", name, kind)
        if own is not None:
            return EffectivePolicy(level="topic", policy=own)
    namespace = "/".join(topic.split("/", 2)[:2])
    shared = get_policy(session, "namespace", namespace, kind)
    if shared is not None:
        return EffectivePolicy(level="namespace", policy=shared)
    broker = broker_policies(get_settings(session)).get(kind)
    if broker is not None:
        return EffectivePolicy(level="broker", policy=Policy.model_validate(broker))
    return EffectivePolicy(level=None, policy=Policy())


def put_policy(
    change: Change, wanted: PolicyPut, precondition: Precondition = ANYTHING
) -> tuple[PolicyShown, bool]:
    """Set a policy; return it and whether it is new.

    Raises:
        Outdated: It does not match `precondition`.
        NotFound: The namespace does not exist.
        Invalid: The target is not a valid name.
    """
    target = checked_target(wanted.level, wanted.target)
    require_namespace(change.session, target)
    if wanted.kind in {"publish", "subscribe"}:
        _refuse_relative(wanted.policy)
    document = wanted.policy.model_dump(mode="json")
    row = change.session.get(PolicyRow, (wanted.level, target, wanted.kind))
    precondition.check(None if row is None else row.revision)
    is_new = row is None
    before = None if row is None else row.policy
    if row is None:
        row = PolicyRow(
            level=wanted.level,
            target=target,
            kind=wanted.kind,
            revision=change.revision,
        )
        change.session.add(row)
    row.policy = document
    key = policy_key(wanted.level, target, wanted.kind)
    if change.record("policy", key, before=before, after=document):
        row.revision = change.revision
    change.session.flush()
    return _shown(row), is_new


def delete_policy(
    change: Change,
    level: Level,
    target: str,
    kind: Kind,
    precondition: Precondition = ANYTHING,
) -> bool:
    """Delete a policy; return whether there was one.

    Raises:
        Outdated: It does not match `precondition`.
    """
    target = checked_target(level, target)
    row = change.session.get(PolicyRow, (level, target, kind))
    precondition.check(None if row is None else row.revision)
    if row is None:
        return False
    change.session.delete(row)
    change.session.flush()
    change.record(
        "policy", policy_key(level, target, kind), before=row.policy, after=None
    )
    return True


def delete_policies_under(change: Change, namespace: str) -> None:
    """Delete the policies of a namespace and of its topics."""
    query = select(PolicyRow).where(
        (PolicyRow.target == namespace) | is_below(PolicyRow.target, namespace)
    )
    for row in change.session.scalars(query).all():
        shown = _shown(row)
        delete_policy(change, shown.level, shown.target, shown.kind)


def get_settings(session: Session) -> dict[str, str]:
    """Return the dynamic configuration that is set."""
    rows = session.scalars(select(SettingRow).order_by(SettingRow.key))
    return {row.key: row.text for row in rows}


def get_setting(session: Session, key: str) -> SettingShown:
    """Return a key of the dynamic configuration, which must be set.

    Raises:
        NotFound: It is not set.
    """
    row = session.get(SettingRow, key)
    if row is None:
        raise NotFound("setting", key)
    return SettingShown(key=row.key, text=row.text, revision=row.revision)


def put_setting(
    change: Change, key: str, text: str, precondition: Precondition = ANYTHING
) -> int:
    """Set a key of the dynamic configuration; return the revision that changed it.

    Raises:
        Outdated: It does not match `precondition`.
        NotFound: There is no such key.
        Invalid: The text is not a valid value for it, or another setting excludes it.
    """
    revision = write_setting(change, key, text, precondition)
    check_together(get_settings(change.session), key)
    return revision


def write_setting(
    change: Change, key: str, text: str, precondition: Precondition = ANYTHING
) -> int:
    """Set a key as `put_setting` does, but leave `check_together` to the caller.

    Raises:
        Outdated: It does not match `precondition`.
        NotFound: There is no such key.
        Invalid: The text is not a valid value for it.
    """
    check_setting(key, text)
    if key in change.refused_settings:
        raise Invalid(key, change.refused_settings[key])
    row = change.session.get(SettingRow, key)
    precondition.check(None if row is None else row.revision)
    before = None if row is None else {"text": row.text}
    if row is None:
        row = SettingRow(key=key, revision=change.revision)
        change.session.add(row)
    row.text = text
    if change.record("setting", key, before=before, after={"text": text}):
        row.revision = change.revision
    change.session.flush()
    return row.revision


def delete_setting(
    change: Change, key: str, precondition: Precondition = ANYTHING
) -> bool:
    """Reset a key to its default; return whether it was set.

    Raises:
        Outdated: It does not match `precondition`.
    """
    row = change.session.get(SettingRow, key)
    precondition.check(None if row is None else row.revision)
    if row is None:
        return False
    change.session.delete(row)
    change.session.flush()
    change.record("setting", key, before={"text": row.text}, after=None)
    return True


def policy_key(level: str, target: str, kind: str) -> str:
    """Return the text that names a policy in the audit."""
    return json.dumps([level, target, kind], ensure_ascii=False, separators=(",", ":"))


def checked_target(level: Level, target: str) -> str:
    """Return the name of a namespace or topic as agents know it.

    Raises:
        Invalid: It is not a valid name.
    """
    name = checked_subject({level: target}, "target")[0][1]
    if name is None:
        raise Invalid("target", "expected a name")
    return name


def require_namespace(session: Session, target: str) -> None:
    """Check that the namespace of `target` exists.

    Raises:
        NotFound: It does not.
    """
    tenant, name = target.split("/", 2)[:2]
    if session.get(NamespaceRow, (tenant, name)) is None:
        raise NotFound("namespace", f"{tenant}/{name}")


Levels = dict[str, dict[str, dict[str, object] | None]]
"""Level → target → kind → policy; None for a target that no longer has any."""


def policies_document(session: Session) -> dict[str, object]:
    """Return all policies as a snapshot shows them."""
    levels: Levels = {"namespace": {}, "topic": {}}
    return _with_broker(session, _filled(levels, session.scalars(select(PolicyRow))))


def changed_policies(session: Session, keys: Iterable[str]) -> dict[str, object]:
    """Return the policies of all targets that `keys` name, and the broker's.

    A target that no longer has any is null.
    """
    levels: Levels = {"namespace": {}, "topic": {}}
    for key in keys:
        level, target, _ = json.loads(key)
        levels[level][target] = None
    targets = {target for level in levels.values() for target in level}
    query = select(PolicyRow).where(PolicyRow.target.in_(targets))
    return _with_broker(session, _filled(levels, session.scalars(query)))


def _filled(levels: Levels, rows: Iterable[PolicyRow]) -> Levels:
    for row in rows:
        kinds = levels[row.level].get(row.target) or {}
        levels[row.level][row.target] = {**kinds, row.kind: row.policy}
    return levels


def _with_broker(session: Session, levels: Levels) -> dict[str, object]:
    settings = get_settings(session)
    return {
        "broker": broker_policies(settings),
        **levels,
        "options": dispatch_options(settings),
    }


def _refuse_relative(policy: Policy) -> None:
    if policy.relative_to_publish_rate:
        raise Invalid(
            "policy.relative_to_publish_rate", "expected only for a dispatch policy"
        )


def _shown(row: PolicyRow) -> PolicyShown:
    return PolicyShown.model_validate(
        {
            "level": row.level,
            "target": row.target,
            "kind": row.kind,
            "policy": Policy.stored(row.policy),
            "revision": row.revision,
        }
    )
