"""Records the API's configuration, revision by revision.

The API is asked before each batch.  Several revisions may pass between two looks, so
all states after the newest known one are fetched, each with the revision that made
it.  While the API is down only newer names are missing: the revisions known so far are
used, and reports carry the revision that their sender used.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

import httpx

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.snapshot import configuration_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.pipeline.configured.history import ConfigurationTable

log = logging.getLogger("headgate.pipeline")

TIMEOUT_S = 5.0
"""Timeout of one request; the API answers in milliseconds."""

MOST_STATES = 1_000
"""Most states fetched in one look, newest first, so the first look goes back this far.
Anything older is judged by the oldest of them."""


class SnapshotRecorder:
    """Appends each state of the configuration to the table of snapshots."""

    def __init__(
        self, url: str, history: ConfigurationTable, *, token: str = ""
    ) -> None:
        """Ask the API at `url`, unless it is empty, and keep answers in `history`."""
        self._url = url.rstrip("/")
        self._history = history
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._down = False
        self._seen = -1

    def look(self) -> int:
        """Fetch all newer states; return the newest revision known."""
        known = max(self._history.newest, self._seen)
        if not self._url:
            return known
        try:
            with httpx.Client(
                base_url=self._url, headers=self._headers, timeout=TIMEOUT_S
            ) as client:
                found = self._newer(client, known)
        except (httpx.HTTPError, ValueError, MalformedSnapshot) as error:
            if not self._down:
                log.warning("no newer configuration from %s: %s", self._url, error)
            self._down = True
            return known
        self._down = False
        return max(known, found)

    def _newer(self, client: httpx.Client, known: int) -> int:
        """Fetch and keep what is newer than `known`; return the newest revision."""
        newest = _snapshot(client, {"revision": known} if known >= 0 else {})
        if newest is None:
            return known
        revision = configuration_from_json(newest).revision
        states = self._states(client, revision, newest)
        self._history.append(states[::-1])
        self._seen = revision
        return revision

    def _states(
        self, client: httpx.Client, revision: int, newest: object
    ) -> list[object]:
        """Return the states up to `revision` that are not known yet, newest first."""
        known, states, at = self._history.newest, list[object](), revision
        while at > known and len(states) < MOST_STATES:
            document = _past(client, at)
            since = configuration_from_json(document).revision
            if since > at:  # an API that knows only the newest state
                return [newest]
            if since <= known:
                break
            states.append(document)
            at = since - 1
        return states


def _past(client: httpx.Client, at: int) -> dict[str, object]:
    """Return the whole state of a revision, which the API returns in pages."""
    whole: dict[str, object] = {}
    query: dict[str, int | str] = {"at": at}
    while True:
        page = cast("dict[str, object]", _snapshot(client, query))
        for name in ("groups", "attachments"):
            told = cast("list[object]", whole.get(name, []))
            page[name] = told + cast("list[object]", page[name])
        whole = page
        following = whole.pop("next", None)
        if following is None:
            return whole
        query["after"] = str(following)


def _snapshot(client: httpx.Client, query: Mapping[str, int | str]) -> object | None:
    """Return a snapshot; None if there is none newer."""
    answer = client.get("/api/v1/snapshot", params=query)
    if answer.is_redirect:
        return None
    answer.raise_for_status()
    document: object = answer.json()
    return document
