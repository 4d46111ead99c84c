"""The store: revisions without gaps, no lost update, one audit row each."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import inspect, select

from headgate.api.audit.service import get_entry
from headgate.api.groups.schemas import GroupBody, GroupPatch, LimitBody, LimitPatch
from headgate.api.groups.service import create_group, get_group, patch_group
from headgate.api.levels.service import load, save
from headgate.api.live.snapshot import Use
from headgate.api.store import Author, Store
from headgate.api.store.tables import AuditRow, StoreTable
from headgate.api.values.errors import Invalid

ANNA = Author(name="anna", address="10.0.0.1", action="test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path}/x.db")


def test_fifty_writers_lose_no_update_and_leave_no_gap(store: Store) -> None:
    with store.changing(ANNA) as change:
        create_group(change, "gold", GroupBody(weight=1))

    def add_one(_number: int) -> None:
        for _ in range(4):
            with store.changing(ANNA) as change:
                weight = get_group(change.session, "gold").weight
                patch_group(change, "gold", GroupPatch(weight=weight + 1))

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(add_one, range(50)))
    with store.reading() as session:
        assert get_group(session, "gold").weight == 201
        revisions = list(session.scalars(select(AuditRow.revision)))
    assert revisions == list(range(1, 202))
    assert store.revision() == 201
    store.close()


def test_the_audit_says_who_when_what_and_from_where(store: Store) -> None:
    with store.changing(ANNA) as change:
        create_group(change, "gold", GroupBody(limits=[]))
    with store.changing(ANNA) as change:
        patch_group(change, "gold", GroupPatch(weight=2))
    with store.reading() as session:
        row = session.get_one(AuditRow, 2)
        (changed,) = get_entry(session, 2).changes
        session.expunge(row)
    assert (row.author, row.address, row.action) == ("anna", "10.0.0.1", "test")
    before, after = changed.before, changed.after
    assert (changed.kind, changed.key) == ("group", "gold")
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert (before["weight"], after["weight"]) == (1.0, 2.0)
    store.close()


def test_a_refused_change_leaves_nothing_behind(store: Store) -> None:
    limit = LimitBody(dimension="requests", rate=1, burst=0)

    def make_two() -> None:
        with store.changing(ANNA) as change:
            create_group(change, "gold", GroupBody())
            create_group(change, "silver", GroupBody(limits=[limit]))

    with pytest.raises(Invalid):
        make_two()
    with store.changing(ANNA) as change:
        made = create_group(change, "gold", GroupBody())
    assert (made.revision, store.revision()) == (1, 1)
    store.close()


def test_migrations_make_the_tables_that_the_code_expects(store: Store) -> None:
    found = inspect(store.engine)
    for table in StoreTable.metadata.sorted_tables:
        columns = {column["name"]: column for column in found.get_columns(table.name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable, column
    store.close()


@pytest.mark.parametrize(
    ("quota", "left"), [(1000.0, 200.0), (2000.0, 1200.0), (900.0, 100.0), (300.0, 0.0)]
)
def test_used_calendar_quota_stays_used_if_it_is_changed_while_nobody_uses_it(
    store: Store, quota: float, left: float
) -> None:
    limit = LimitBody(dimension="requests", rate=1000, period="year")
    with store.changing(ANNA) as change:
        made = create_group(change, "gold", GroupBody(limits=[limit]))
    use = Use(
        group_id=made.id,
        group="gold",
        dimension="requests",
        rate=1e-15,
        period_s=3600.0,
        burst=1000.0,
        level=200.0,
        available_per_s=0.0,
    )
    save(store, [(use, time.time())])
    changed = LimitPatch(dimension="requests", rate=quota)
    with store.changing(ANNA) as change:
        patch_group(change, "gold", GroupPatch(limits=[changed]))
    assert [known.level for known in load(store)] == [left]
    save(store, [(replace(use, level=-50.0), time.time() - 400.0 * 86_400.0)])
    assert [known.level for known in load(store)] == [-50.0], "is owed to the new year"
    store.close()
