"""Follows the configuration: the API while it is there, the disk while it is not.

One blocking query per revision: ``GET /api/v1/snapshot?revision=N&wait_s=30`` answers
with a newer snapshot as soon as there is one, or says that there is none.  The answer
may hold only what has changed since N; an API of an earlier version sends everything.
The API may be down for days: the agent goes on with what it has and retries about once
a second.  After a failure the next request names no revision, because the store may
have been restored to an earlier one.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections import Counter
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow import snapshot_file
from headgate.agent.follow.snapshot import snapshot_from_changes
from headgate.agent.follow.snapshot_file import MAX_SNAPSHOT_BYTES
from headgate.agent.follow.stored_levels import levels_of
from headgate.agent.http_connection import Connection, beginning_of
from headgate.agent.json_place import JsonPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headgate.agent.follow.liveness import LivenessFeed
    from headgate.agent.follow.snapshot import Snapshot
    from headgate.agent.http_connection import HttpAnswer
    from headgate.coordinator import Restored

log = logging.getLogger("headgate.agent")

Source = Literal["api", "disk", "none"]
"""Where the configuration in force came from."""

WAIT_S = 30.0
"""How long the API may hold a request; proxies close silent connections after a
minute."""

ANSWER_S = 10.0
"""Timeout of connecting, and of the answer on top of the requested wait."""

FIRST_PAUSE_S = 0.25
"""Pause after the first failure, doubled with each further one, with jitter, so that
the agents of a cluster don't all return to a restarted API at once."""

MAX_PAUSE_S = 0.75
"""The longest such pause, so that a change made as soon as the API is back takes effect
within a second.  Trying a closed port once a second costs the agent and the API's host
next to nothing."""

JITTER = 0.25
"""Fraction by which a pause may be shorter or longer."""

REPEATED_GAP_S = 0.25
"""Answers without a newer revision that follow each other sooner than this come from a
proxy that doesn't wait, or from several API processes behind one address, which know
different agents or have different stores."""

REPEATED_PAUSE_S = 1.0
"""The API then waits for so long before it answers the next request, or it would answer
at once again, and so on."""

CLOSE_S = 2.0
"""Longest wait for the (daemon) thread to end."""

PATH = "/api/v1/snapshot"
"""Path that is requested."""

MAY_PASS = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
"""Refusals that may pass, like those from 500 on: the API is there, or a proxy for it.
Any other refusal, or a redirection, comes from something that is not the API."""

NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
"""What OpenSSL says when the other side answers with something other than TLS."""


UNAUTHORIZED = b"urn:headgate:problem:unauthorized"
"""Problem type of the API's own 401; any other may come from a proxy, and may pass."""


class NotTheApi(MalformedSnapshot):
    """Something other than Headgate's API answers at the address."""


class TokenRefused(MalformedSnapshot):
    """The API refuses the token, or asks for one."""


class ConfigurationWatch:
    """A thread that passes every new snapshot to `deliver`.

    Args:
        url: Address of the API, without a path.
        deliver: Called with a snapshot, in the thread of the watch.
        path: Where the last snapshot is kept, or None.
        headers: Sent with every request: token, agent.
        trust: Certificate authorities to trust; None for the system's.
        vouching: Takes what the API says about which agents live.
        restore: Called with levels that were stored before all agents stopped.

    Attributes:
        source: Where the configuration in force came from.
        counters: Number of events, by name.
        decided: Set once API or disk has answered, or both have failed.
        settled: Set once there is a configuration, or a setting is wrong.
        wrong_setting: Which setting of `connect` is wrong, and why: nothing at the
            address can be the API, or the API refuses the token; empty otherwise.
    """

    def __init__(
        self,
        url: str,
        deliver: Callable[[Snapshot], None],
        *,
        path: Path | None,
        headers: Mapping[str, str],
        trust: ssl.SSLContext | None = None,
        vouching: LivenessFeed,
        restore: Callable[[Restored], None],
    ) -> None:
        self._url = url
        self._address = url.rstrip("/") + PATH
        self._deliver = deliver
        self._path = path
        self._headers = dict(headers)
        self._trust = trust
        self._vouching = vouching
        self._restore = restore
        self._closing = threading.Event()
        self._adopting = threading.Lock()  # two threads may bring the first snapshot
        self._connection: Connection | None = None
        self._last: Snapshot | None = None
        self._failing = False
        self._kept = True
        self._went_back = False
        self._repeated_at = -inf
        self._rest_s = 0.0
        self.source: Source = "none"
        self.counters: Counter[str] = Counter()
        self.decided = threading.Event()
        self.settled = threading.Event()
        self.wrong_setting = ""
        self._thread = threading.Thread(
            target=self._run, name="headgate-watch", daemon=True
        )

    @property
    def api_reachable(self) -> bool:
        """Whether the last request was answered."""
        return self.source != "none" and not self._failing

    def start(self) -> None:
        """Start the thread; `decided` is set once API or disk has answered."""
        self._thread.start()

    def use_disk(self) -> None:
        """Start from the disk if the API has not answered so far; it still may."""
        if self._load():
            log.warning(
                "no answer from %s yet, using the configuration on disk", self._address
            )
            self.settled.set()

    def close(self) -> None:
        """Stop, even while an answer is awaited."""
        self._closing.set()
        if self._connection is not None:
            self._connection.interrupt()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        """Ask until closed."""
        pause_s = FIRST_PAUSE_S
        while not self._closing.is_set():
            try:
                # Made here, because certificates that the environment names may be
                # wrong, and the thread must survive that.
                self._connection = self._connection or Connection(
                    self._url,
                    trust=self._trust,
                    timeout_s=ANSWER_S,
                    most_bytes=MAX_SNAPSHOT_BYTES,
                )
                self._ask(self._connection)
                pause_s = FIRST_PAUSE_S
            except Exception as error:  # HTTP, JSON, disk: the thread goes on
                if self._closing.is_set():
                    break
                self._failed(error)
                jitter = random.uniform(1.0 - JITTER, 1.0 + JITTER)
                self._closing.wait(pause_s * jitter)
                pause_s = min(2.0 * pause_s, MAX_PAUSE_S)
        if self._connection is not None:
            self._connection.close()

    def _ask(self, connection: Connection) -> None:
        """Request a newer snapshot once, and deliver it."""
        asked = {} if self.source != "api" or self._failing else self._newer()
        asked_at, rest_s = time.monotonic(), self._rest_s if asked else 0.0
        answer = connection.send(
            "GET",
            f"{PATH}?{urlencode(asked)}" if asked else PATH,
            headers=self._headers,
            body=None,
            timeout_s=ANSWER_S + (WAIT_S if asked else 0.0),
        )
        if answer.status == HTTPStatus.NOT_MODIFIED:
            self._answered()
        elif self._adopt(self._body_of(answer)):
            asked = {}
        if rest_s:
            # A proxy, or an older API, may have answered at once all the same.
            self._closing.wait(max(0.0, asked_at + rest_s - time.monotonic()))
        self._rest_s = self._pace() if asked else 0.0

    def _body_of(self, answer: HttpAnswer) -> bytes:
        """Return the body of an answer; raise what another status says."""
        if answer.status == HTTPStatus.UNAUTHORIZED and UNAUTHORIZED in answer.body:
            sent = "Authorization" in self._headers
            raise TokenRefused(
                f"the API at {self._url}"
                f" {'refuses this token' if sent else 'asks for a token'} (401):"
                " expected a valid one of the role agent"
            )
        return _body(answer)

    def _adopt(self, text: bytes) -> bool:
        """Use an answer; return whether it brings a newer revision."""
        known = self._revision()
        document = self._document_of(text)
        for levels in levels_of(document):
            self._restore(levels)
        with self._adopting:
            if self._vouching.take(document):
                self._answered()
            elif self._last is not None and _is_changes(document):
                self._take(snapshot_from_changes(self._last, document), changes=text)
            else:
                self._take(snapshot_file.snapshot_of(document, self._address))
        return self._revision() > known

    def _pace(self) -> float:
        """Return how long the API should wait if it keeps answering with nothing newer.

        It waits rather than this agent, because it sees the end of a process only while
        that one asks.
        """
        before, self._repeated_at = self._repeated_at, time.monotonic()
        over_and_over = self._repeated_at - before < REPEATED_GAP_S
        return REPEATED_PAUSE_S if over_and_over else 0.0

    def _newer(self) -> dict[str, str]:
        """Return the query for anything newer than what is known."""
        wait_s, rest_s = WAIT_S - self._rest_s, self._rest_s
        known = {"revision": str(self._revision()), "wait_s": f"{wait_s:g}"}
        known["changes"] = "true"
        if rest_s:
            known["rest_s"] = f"{rest_s:g}"
        return known | self._vouching.query()

    def _revision(self) -> int:
        """Return the known revision; a new store begins with 0."""
        return 0 if self._last is None else self._last.configuration.revision

    def _document_of(self, text: bytes) -> object:
        """Return the JSON of an answer; raise if no API of Headgate would send it."""
        try:
            document = snapshot_file.document_of(text, self._address)
            top = JsonPlace.top(document)
        except MalformedSnapshot as error:
            raise NotTheApi(str(error)) from None
        if not (top["revision"].present or top["alive"].present):
            raise NotTheApi(f"{self._address}: expected a snapshot, got other JSON")
        return document

    def _take(self, snapshot: Snapshot, changes: bytes | None = None) -> None:
        """Adopt a snapshot of the API, and keep it on disk, or only its `changes`."""
        self._answered()
        revision = snapshot.configuration.revision
        if revision < self._revision() and not self._went_back:
            self._went_back = True  # said again only after an outage
            log.warning(
                "the API went back from revision %d to %d; the agent does the same",
                self._revision(),
                revision,
            )
        # Compared as a whole: a restarted API may name another bus.
        news = snapshot != self._last
        self._last, self.source = snapshot, "api"
        if news:
            self.counters["snapshots"] += 1
            self._deliver(snapshot)
            self._keep(snapshot, changes)
        self.settled.set()
        self.decided.set()

    def _answered(self) -> None:
        """Note that the API answers."""
        if self._failing:
            log.warning("the API at %s answers again", self._url)
        self._failing = False
        self._vouching.answered()

    def _failed(self, error: Exception) -> None:
        """Note that the API fails; at the start, fall back to the disk."""
        self.counters["api_failures"] += 1
        self._vouching.withdraw()
        self._went_back = False
        if not self._failing:
            log.warning(
                "no configuration from %s, using %s: %s%s",
                self._address,
                "the last one" if self.source != "none" else "the one on disk, if any",
                "" if isinstance(error, TokenRefused) else f"{type(error).__name__}: ",
                error,
            )
        self._failing = True
        if not self.decided.is_set():
            self._load()
        if self.source == "none" and isinstance(error, TokenRefused):
            self.wrong_setting = f"token: {error}"
        elif self.source == "none" and (isinstance(error, NotTheApi) or _no_tls(error)):
            self.wrong_setting = (
                f"url: expected the address of Headgate's API, but something else"
                f" answered at {self._address}: {error}"
            )
        if self.source != "none" or self.wrong_setting:
            self.settled.set()
        self.decided.set()

    def _load(self) -> bool:
        """Deliver the snapshot on disk if it is the first; return whether it is."""
        with self._adopting:
            if self._path is None or self.source != "none":
                return False
            try:
                snapshot = snapshot_file.load(self._path)
            except Exception as error:  # whatever is on disk must not end the thread
                self.counters["disk_failures"] += 1
                log.warning("the snapshot on disk can't be used: %s", error)
                return False
            if snapshot is None:
                return False
            self._last, self.source, self._failing = snapshot, "disk", True
            self._deliver(snapshot)
            return True

    def _keep(self, snapshot: Snapshot, changes: bytes | None) -> None:
        """Write the snapshot to disk; the agent also works without it."""
        if self._path is None:
            return
        try:
            # After a failure the file lacks a change, and later ones don't follow it.
            brief = changes if self._kept else None
            if brief is None or not snapshot_file.append(self._path, brief):
                snapshot_file.store(self._path, snapshot)
            self._kept = True
        except OSError as error:
            self.counters["disk_failures"] += 1
            if self._kept:
                log.warning("the snapshot can't be written to disk: %s", error)
            self._kept = False


def _body(answer: HttpAnswer) -> bytes:
    """Return the body of an answer; raise what another status says."""
    if answer.is_success:
        return answer.body
    said = beginning_of(answer.body)
    if answer.location:
        said = f"redirected to {answer.location}"
    status = answer.status
    passing = status in MAY_PASS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    kind = MalformedSnapshot if passing else NotTheApi
    raise kind(f"{status}: {said}")


def _is_changes(document: object) -> bool:
    """Return whether an answer holds only changes."""
    return JsonPlace.top(document)["since"].present


def _no_tls(error: BaseException | None) -> bool:
    """Return whether TLS failed because the other side doesn't speak it."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
            return True
        error = error.__cause__ or error.__context__
    return False
