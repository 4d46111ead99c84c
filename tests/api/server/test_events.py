"""Server-sent events: what a stream costs while nothing changes."""

from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy.orm import Session

from headgate.api.events import routes
from headgate.api.groups.service import find_group
from headgate.api.store.tables import GroupRow


def test_a_stream_of_a_group_reads_the_database_only_after_a_change(
    rest: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def counted(session: Session, name: str) -> GroupRow:
        reads.append(name)
        return find_group(session, name)

    monkeypatch.setattr(routes, "find_group", counted)
    monkeypatch.setattr(routes, "INTERVAL_S", 0.02)
    for name in ("gold", "other"):
        rest.put(f"/groups/{name}", json={}).raise_for_status()
    with rest.stream("GET", "/events", params={"group": "gold"}) as stream:
        kinds = kinds_of(stream)
        for _ in range(20):
            await_kind(kinds, "group")
        assert reads == ["gold", "gold"], "for the answer, and for the first picture"
        rest.put("/groups/other", json={"weight": 2}).raise_for_status()
        await_kind(kinds, "revision")
        for _ in range(5):
            await_kind(kinds, "group")
        assert len(reads) == 3
        rest.delete("/groups/gold").raise_for_status()
        await_kind(kinds, "gone")


def kinds_of(stream: httpx.Response) -> Iterator[str]:
    for line in stream.iter_lines():
        if line.startswith("event: "):
            yield line.removeprefix("event: ")


def await_kind(kinds: Iterator[str], wanted: str) -> None:
    assert wanted in kinds, f"the stream ends without {wanted}"
