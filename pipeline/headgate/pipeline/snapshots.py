"""Keeps what the API says of the configuration, revision by revision.

Asked before each batch; an API that is down costs nothing but newer names: what is
on disk is gone by, and reports carry the revision that their sender went by.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import httpx

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.snapshot import configuration_from_json
from headgate.pipeline.configured import read_history

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("headgate.pipeline")

TIMEOUT_S = 5.0
"""Bound of one question; the API answers in milliseconds."""


class Recorder:
    """Appends each new revision to a file, one snapshot a line."""

    def __init__(self, url: str, path: Path, *, token: str = "") -> None:
        """Ask the API at `url`, if it is not empty, and keep answers at `path`."""
        self._url = url.rstrip("/")
        self._path = path
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._down = False

    def look(self) -> int:
        """Fetch the configuration if there is a newer one; return the newest known."""
        newest = max((c.revision for c in read_history(self._path)), default=-1)
        if not self._url:
            return newest
        try:
            document = self._ask(newest)
            if document is None:
                return newest
            revision = configuration_from_json(document).revision
        except (httpx.HTTPError, ValueError, MalformedSnapshot) as error:
            if not self._down:
                log.warning("no newer configuration from %s: %s", self._url, error)
            self._down = True
            return newest
        self._down = False
        if revision > newest:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as stream:
                stream.write(json.dumps(document, separators=(",", ":")) + "\n")
        return revision

    def _ask(self, newest: int) -> object | None:
        """Return the snapshot; None if there is none newer."""
        query = {"revision": newest} if newest >= 0 else {}
        answer = httpx.get(
            f"{self._url}/api/v1/snapshot",
            params=query,
            headers=self._headers,
            timeout=TIMEOUT_S,
        )
        if answer.is_success:
            document: object = answer.json()
            return document
        if answer.is_redirect or not answer.is_error:  # there is none newer
            return None
        answer.raise_for_status()
        return None
