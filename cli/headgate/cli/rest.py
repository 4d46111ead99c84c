"""The REST API as the command line sees it: JSON in, JSON out, one line of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import quote

import httpx

from headgate.cli.failure import Failure, Misused, Unreachable, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

JsonObject: TypeAlias = dict[str, object]
Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

TIMEOUT_S = 10.0
"""The API answers from SQLite in milliseconds; this is for a busy machine."""

PAGE = 100
"""Items a page of a list: few round trips, small answers."""

MAX_ITEMS = 100_000
"""PIP-82 sizes a cluster at this many groups; a longer list is cut off, aloud."""


class Rest:
    """A connection to the API; a context that closes it."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Such as ``http://127.0.0.1:8080``.
            token: Bearer token, where the API asks for one.

        Raises:
            Failure: The URL is none.
            Misused: The token can't stand in a header.
        """
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise Misused("--token: expected letters, digits and signs, in one line")
        if not url.startswith(("http://", "https://")):
            raise Failure(f"{url!r}: expected a URL such as http://127.0.0.1:8080")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx.Client(
                base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Failure(one_line(f"{url!r}: {error}")) from error
        self._url = url

    def call(
        self,
        verb: Verb,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str | int | float] | None = None,
    ) -> JsonObject:
        """Return the answer; empty where there is none.

        Raises:
            Unreachable: Nobody answers.
            Failure: The API refuses, or what answers is not the API.
        """
        try:
            response = self._client.request(verb, path, json=body, params=query)
        except ValueError as error:  # NaN and infinity have no JSON
            raise Failure(one_line(str(error))) from error
        except httpx.TransportError as error:
            why = one_line(str(error)) or type(error).__name__
            raise Unreachable(
                f"no API answers at {self._url} ({why}); "
                "start one with `headgate up`, or say where it is with --url"
            ) from error
        if response.is_error:
            raise Failure(_problem(response))
        if not response.content:
            return {}
        try:
            answer: object = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Failure(f"{self._url} is not a Headgate API: no JSON object came")
        return cast("JsonObject", answer)

    def pages(
        self, path: str, query: Mapping[str, str | int | float] | None = None
    ) -> Iterator[JsonObject]:
        """Yield the items of a list, however many pages it has.

        Raises:
            Failure: As `call`; or there are more than `MAX_ITEMS`.
        """
        asked: dict[str, str | int | float] = {**(query or {}), "limit": PAGE}
        for _ in range(MAX_ITEMS // PAGE):
            page = self.call("GET", path, query=asked)
            yield from cast("list[JsonObject]", page.get("items", []))
            after = page.get("next")
            if after is None:
                return
            asked["after"] = cast("str | int", after)
        raise Failure(f"there are more than {MAX_ITEMS:,} items; ask more narrowly")

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def __enter__(self) -> Rest:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def segment(name: str) -> str:
    """Return `name` as one segment of a path.

    >>> segment("acme/orders")
    'acme%2Forders'

    Raises:
        Misused: No path can hold it.
    """
    if name in {"", ".", ".."}:
        raise Misused(f"{name!r}: expected a name; it is empty, . or ..")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:  # bytes of the shell that are no UTF-8
        raise Misused(f"{name!a}: expected a name in UTF-8") from error


def _problem(response: httpx.Response) -> str:
    """Return one sentence of a problem document (RFC 9457), or of what came."""
    try:
        problem: object = response.json()
    except ValueError:
        problem = None
    said = ""
    if isinstance(problem, dict):
        document = cast("JsonObject", problem)
        said = str(document.get("detail") or document.get("reason") or "")
        said = said or str(document.get("title") or "")
    return one_line(said or f"the API answered {response.status_code}")
