"""The preview: what a change would do to those who use the group now."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.api.groups.schemas import GroupPut
from headgate.api.groups.service import create_group
from headgate.api.live.snapshot import ClusterSnapshot, LiveAgentUse, Use
from headgate.api.preview.schemas import Preview, PreviewPost
from headgate.api.preview.service import preview
from headgate.api.store import Author, Store

ANNA = Author(name="anna")


def row(agent: str, demand: float, share: float) -> LiveAgentUse:
    return LiveAgentUse(
        agent=agent,
        demand_per_s=demand,
        share_per_s=share,
        ceiling_per_s=share,
        admitted_per_s=share,
        refused_per_s=demand - share,
        held_units=0,
        subjects=1,
        age_s=0.1,
        state="present",
    )


def body(rate: float) -> GroupPut:
    limits = [{"dimension": "requests", "rate": rate}]
    return GroupPut.model_validate({"limits": limits})


def previewed(store: Store, *rows: LiveAgentUse) -> Preview:
    """Return the preview of 500/s where `rows` use the group's 1,000/s now."""
    use = Use(
        group_id=1,
        group="gold",
        dimension="requests",
        rate=1000,
        period_s=1,
        burst=1000,
        level=0,
        available_per_s=1000,
        agents=rows,
    )
    picture = ClusterSnapshot(at_s=123.0, uses=(use,))
    with store.changing(ANNA, dry_run=True) as change:
        return preview(change, PreviewPost(group="gold", body=body(500)), picture)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(f"sqlite:///{tmp_path}/x.db")
    with made.changing(ANNA) as change:
        create_group(change, "gold", body(1000))
    return made


def test_a_preview_tells_refusals_and_shares_of_the_demand_that_is_seen(
    store: Store,
) -> None:
    rows = (row("a", 100, 100), row("b", 400, 400), row("c", 700, 500))
    shown = previewed(store, *rows)
    (limit,) = shown.limits
    assert (limit.rate_before_per_s, limit.rate_after_per_s) == (1000, 500)
    assert (limit.refused_before_per_s, limit.refused_after_per_s) == (200, 700)
    assert {x.agent: x.share_after_per_s for x in limit.agents} == {
        "a": 100,
        "b": 200,
        "c": 200,
    }
    assert limit.sentence == (
        "700 of the 1,200 units/s attempted now would be refused; 200 are refused now."
    )
    assert shown.changes[0].key == "gold"
    assert store.revision() == 1
    store.close()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((), "No agent uses it now."),
        ((row("a", 0, 0),), "Its callers ask for nothing at present."),
        (
            (row("a", 2_524.4, 500),),
            "2,020 of the 2,520 units/s attempted now would be refused; "
            "2,020 are refused now.",
        ),
        (
            (row("a", 0.1234, 0.1234),),
            "0 of the 0.123 units/s attempted now would be refused; 0 are refused now.",
        ),
        (
            (row("a", 1e12, 1e12),),
            "1,000,000,000,000 of the 1,000,000,000,000 units/s attempted now would be "
            "refused; 0 are refused now.",
        ),
    ],
)
def test_a_preview_says_in_words_what_is_asked_for_now(
    store: Store, rows: tuple[LiveAgentUse, ...], sentence: str
) -> None:
    (limit,) = previewed(store, *rows).limits
    assert limit.sentence == sentence
    store.close()


def test_a_preview_of_a_new_group_changes_nothing(
    rest: httpx.Client, unchanged: Any
) -> None:
    wanted = {"group": "new", "body": {"limits": [{"dimension": "d", "rate": 5}]}}
    with unchanged():
        shown = rest.post("/preview", json=wanted).json()
    (limit,) = shown["limits"]
    assert (limit["rate_before_per_s"], limit["rate_after_per_s"]) == (None, 5)
    assert limit["sentence"] == "No agent uses it now."
    assert rest.get("/groups/new").status_code == 404


def test_a_preview_refuses_what_the_change_would_be_refused_for(
    rest: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        wanted: dict[str, Any] = {"group": "x", "body": {"weight": -1}}
        assert rest.post("/preview", json=wanted).status_code == 422
        wanted = {"group": "x", "body": {"parent": "none"}}
        assert rest.post("/preview", json=wanted).status_code == 404
