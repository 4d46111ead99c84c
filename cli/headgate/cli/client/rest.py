"""The REST API as the command line sees it: JSON in, JSON out, one-line errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import urlencode

from headgate.agent.http_connection import Connection, HttpAnswer, NoAnswer
from headgate.cli.client.closeable import Closing
from headgate.cli.failure import Failure, Misused, RefusedByApi, Unreachable, one_line

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from pathlib import Path

JsonObject: TypeAlias = dict[str, object]
Query: TypeAlias = "Mapping[str, str | int | float]"
Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

TIMEOUT_S = 10.0
"""The API usually answers within milliseconds; this allows for a busy machine."""

PAGE = 100
"""Items per page of a list: few round trips, small answers."""

MAX_ITEMS = 100_000
"""PIP-82 sizes a cluster at this many groups; a longer list is an error."""

_UNAUTHORIZED = "urn:headgate:problem:unauthorized"
"""Problem type of a request without a valid token."""


@dataclass(frozen=True, slots=True)
class Content:
    """A body that is sent unchanged.

    Attributes:
        raw: Its bytes.
        media_type: Their type, such as ``application/yaml``.
    """

    raw: bytes
    media_type: str


class Rest(Closing):
    """A connection to the API; a context manager that closes it."""

    def __init__(
        self, url: str, *, token: str | None = None, ca_file: Path | None = None
    ) -> None:
        """Prepare the connection; nothing is sent yet.

        Args:
            url: Such as ``http://127.0.0.1:8080``.
            token: Bearer token, if the API requires one.
            ca_file: PEM file of the authorities to trust; None for the system's.

        Raises:
            Failure: The URL is malformed.
            Misused: The token can't be sent in a header, or the file holds no
                certificate.
        """
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise Misused("--token: expected printable ASCII characters without spaces")
        if not url.startswith(("http://", "https://")):
            raise Failure(f"{url!r}: expected a URL such as http://127.0.0.1:8080")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        trust = None if ca_file is None else _trusting(ca_file)
        try:
            self._connection = Connection(url, trust=trust, timeout_s=TIMEOUT_S)
        except ValueError as error:
            raise Failure(one_line(f"{url!r}: {error}")) from error
        self._url = url

    def call(
        self,
        verb: Verb,
        path: str,
        *,
        body: Mapping[str, object] | Content | None = None,
        query: Query | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> JsonObject:
        """Return the answer; empty if the response has no body.

        Raises:
            Unreachable: The API does not answer, fails, or is overloaded.
            RefusedByApi: The API refuses.
            Failure: The server that answers is not the API.
        """
        response = self._send(verb, path, body, query, timeout_s)
        if verb != "GET" and not response.body:
            return {}
        return self._document(response)

    def put(self, path: str, body: Mapping[str, object]) -> tuple[JsonObject, bool]:
        """Put `body`; return the answer, and whether that created something.

        Raises:
            Failure: As for `call`.
        """
        response = self._send("PUT", path, body, None, TIMEOUT_S)
        return self._document(response), response.status == HTTPStatus.CREATED

    def pages(self, path: str, query: Query | None = None) -> Iterator[JsonObject]:
        """Yield the items of a list, page by page.

        Raises:
            Failure: As for `call`, or there are more than `MAX_ITEMS`.
        """
        asked: dict[str, str | int | float] = {**(query or {}), "limit": PAGE}
        for _ in range(MAX_ITEMS // PAGE):
            page = self.call("GET", path, query=asked)
            yield from cast("list[JsonObject]", page.get("items", []))
            after = page.get("next")
            if after is None:
                return
            asked["after"] = cast("str | int", after)
        raise Failure(f"there are more than {MAX_ITEMS:,} items; narrow the search")

    def texts(self, path: str) -> list[str]:
        """Return the texts of a plain list.

        Raises:
            Failure: As for `call`, or the answer is no list.
        """
        response = self._send("GET", path, None, None, TIMEOUT_S)
        try:
            content: object = json.loads(response.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, list):
            raise Failure(f"{self._url} is not a Headgate API: expected a list")
        return [str(one) for one in cast("list[object]", content)]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _send(
        self,
        verb: Verb,
        path: str,
        body: Mapping[str, object] | Content | None,
        query: Query | None,
        timeout_s: float,
    ) -> HttpAnswer:
        """Return a response that is neither a refusal nor an error."""
        headers, content = dict(self._headers), None
        if isinstance(body, Content):
            headers["Content-Type"], content = body.media_type, body.raw
        elif body is not None:
            headers["Content-Type"] = "application/json"
            try:
                content = json.dumps(body, allow_nan=False).encode()
            except ValueError as error:  # JSON has neither NaN nor infinity
                raise Failure(one_line(str(error))) from error
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            response = self._connection.send(
                verb, target, headers=headers, body=content, timeout_s=timeout_s
            )
        except NoAnswer as error:
            raise Unreachable(_no_answer(self._url, error, verb != "GET")) from error
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(self._url, response)
        return response

    def _document(self, response: HttpAnswer) -> JsonObject:
        document = _json_object(response.body)
        if document is None:
            raise Failure(f"{self._url} is not a Headgate API: expected a JSON object")
        return document


def _json_object(body: bytes) -> JsonObject | None:
    """Return a body that is a JSON object, else None."""
    try:
        content: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", content) if isinstance(content, dict) else None


def _trusting(ca_file: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts only the authorities in a file."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise Misused(f"--ca-file {ca_file}: expected certificates in PEM") from error
    except OSError as error:
        raise Misused(f"--ca-file {ca_file}: {error.strerror}") from error


def _no_answer(url: str, error: NoAnswer, changes: bool) -> str:
    """Return why the API did not answer, and what to do about it."""
    why = one_line(str(error))
    if error.is_late:
        said = f"the API at {url} accepted the request but did not answer in time"
        return f"{said}; check whether the change was made" if changes else said
    if "CERTIFICATE_VERIFY_FAILED" in why:
        why = why.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        return (
            f"the certificate of {url} is not trusted ({why}); "
            "name the authority that signed it with --ca-file"
        )
    if "SSL" in why or "TLS" in why:
        return f"TLS with {url} failed ({why}); is it a plain http:// server?"
    return (
        f"no API answers at {url} ({why}); "
        "start one with `headgate up`, or name its address with --url"
    )


def _refusal(url: str, response: HttpAnswer) -> RefusedByApi | Unreachable:
    """Return the error that a problem document (RFC 9457) or another body describes.

    A status of 500 or above is not a refusal: the API, its database or a proxy has
    failed, and may recover.
    """
    document = _json_object(response.body) or {}
    said = str(document.get("detail") or document.get("reason") or "")
    said = said or str(document.get("title") or "")
    said = one_line(said or f"the API at {url} answered {response.status}")
    if document.get("type") == _UNAUTHORIZED:
        said += ": pass it with --token or HEADGATE_TOKEN"
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(said)
    return RefusedByApi(said, _fields(document.get("errors")))


def _fields(errors: object) -> tuple[tuple[str, str], ...]:
    """Return the pairs of field and reason in a problem document."""
    if not isinstance(errors, list):
        return ()
    listed = cast("list[object]", errors)
    named = [cast("JsonObject", one) for one in listed if isinstance(one, dict)]
    return tuple((str(one.get("field")), str(one.get("reason"))) for one in named)
