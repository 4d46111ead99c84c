"""Requests to the REST API, and their failures as one error."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote, urlencode

from headgate.agent.bucket.costs import shown
from headgate.agent.errors import HeadgateError, MalformedSnapshot
from headgate.agent.follow.certificates import trusting
from headgate.agent.http_connection import Connection, NoAnswer, beginning_of
from headgate.agent.json_place import Json, JsonPlace
from headgate.agent.names import is_unicode
from headgate.agent.settings import check_timeout, check_token, check_url

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    _Whole: TypeAlias = dict[object, object] | list[object] | tuple[object, ...]

Verb = Literal["GET", "PUT", "PATCH", "POST", "DELETE"]

PAGE = 500
"""Items per page of a list; the API allows 1,000."""

MAX_PAGES = 2_000
"""Most pages of one list: a million items.  An endless list is not believed."""

MAX_DEPTH = 64
"""Most levels of lists and mappings in a body; a file of quotas has six."""


class AdminError(HeadgateError):
    """The API refused, failed, or did not answer.

    The message says where (the request, and the field of its body) and what was
    expected or went wrong.

    Attributes:
        operation: The request, such as ``PUT /api/v1/groups/gold``.
        status: HTTP status of the answer; None if there was no answer that could be
            read.  After a change without an answer, it is not known whether the
            change was made.
        problems: Pairs of a field of the request and what was expected there, such as
            ``("limits[0].rate", "expected ≥ 0")``.
    """

    def __init__(
        self,
        operation: str,
        said: str,
        *,
        status: int | None = None,
        problems: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(f"{operation}: {said}")
        self.operation = operation
        self.status = status
        self.problems = problems


class AdminConnection:
    """A connection to ``/api/v1``; every failure is an `AdminError`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        ca_file: str | os.PathLike[str] | None,
        timeout_s: float,
    ) -> None:
        check_url(url)
        if token is not None:
            check_token(token)
        check_timeout(timeout_s)
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        trust = None if ca_file is None else trusting(ca_file)
        self._connection = Connection(url, trust=trust, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connection; it can't be used afterwards."""
        self._connection.close()

    def call(
        self,
        verb: Verb,
        *steps: str,
        body: Json | bytes = None,
        query: Mapping[str, str | int] | None = None,
        timeout_s: float | None = None,
    ) -> JsonPlace:
        """Return the answer to one request; an empty object if it has no body.

        Args:
            verb: Its method.
            steps: The path below ``/api/v1``, step by step, not yet quoted.
            body: JSON, or the bytes of a YAML document; None for no body.
            query: Parameters of the query.
            timeout_s: Used instead of the connection's own.

        Raises:
            AdminError: Whatever went wrong.
        """
        path = "/".join(quote(str(step), safe="", errors="replace") for step in steps)
        operation = f"{verb} {self._url}/api/v1/{path}"
        for step in steps:
            _check_segment(operation, step)
        content = _bytes_of(operation, body)
        asked = f"?{urlencode(query)}" if query else ""
        try:
            answer = self._connection.send(
                verb,
                f"/api/v1/{path}{asked}",
                headers=self._headers | _media_type(body),
                body=content,
                timeout_s=timeout_s or self._timeout_s,
            )
        except NoAnswer as error:
            raise AdminError(operation, _why(error, changes=verb != "GET")) from error
        return _answer(operation, answer.status, answer.body)

    def pages(
        self, *steps: str, query: Mapping[str, str | int] | None = None
    ) -> Iterator[JsonPlace]:
        """Yield the items of a list, page by page.

        Raises:
            AdminError: As `call`; or the list does not end.
        """
        asked: dict[str, str | int] = {"limit": PAGE, **(query or {})}
        # The audit goes backwards, every other list forwards.
        cursor = "before" if steps == ("audit",) else "after"
        operation = f"GET {self._url}/api/v1/{'/'.join(map(str, steps))}"
        for _ in range(MAX_PAGES):
            page = self.call("GET", *steps, query=asked)
            try:
                items, following = page.items("items"), page.optional("next")
            except MalformedSnapshot as error:
                raise AdminError(operation, f"malformed answer: {error}") from error
            yield from items
            if following is None:
                return
            if not items:
                raise AdminError(operation, "a page before the last is empty")
            asked[cursor] = str(following.value)
        raise AdminError(operation, f"the list has more than {MAX_PAGES} pages")


def _check_segment(operation: str, step: object) -> None:
    """Raise AdminError for a name that can't be one segment of a path."""
    # Servers decode %2F before they route, and clients leave out . and ..
    if (
        not isinstance(step, str)
        or step in {"", ".", ".."}
        or "/" in step
        or not is_unicode(step)
    ):
        expected = "expected text without slashes, not empty, . or .."
        raise _wrong(operation, "name", f"{expected}, got {shown(step)}")


def _bytes_of(operation: str, body: Json | bytes) -> bytes | None:
    """Return the content of a request.

    Raises:
        AdminError: A field has a value that JSON does not have.
    """
    if body is None or isinstance(body, bytes):
        return body
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        for field, expected in _problems(body):
            raise _wrong(operation, field, expected) from error
        raise AdminError(operation, str(error)) from error


def _problems(
    value: object, field: str = "", within: tuple[int, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each field whose value JSON does not have, and what was expected there.

    Args:
        value: What to look through.
        field: Where it is.
        within: Ids of the lists and mappings that it is part of.
    """
    if isinstance(value, dict | list | tuple):
        whole = cast("_Whole", value)
        if id(whole) in within:  # such as a list that was appended to itself
            yield field, "expected a JSON value, got one that contains itself"
        elif len(within) == MAX_DEPTH:
            yield field, f"expected at most {MAX_DEPTH} levels of lists and mappings"
        else:
            for name, one in _members(whole, field):
                yield from _problems(one, name, (*within, id(whole)))
    elif isinstance(value, float) and not isfinite(value):
        yield field, f"expected a finite number, got {value}"
    elif value is not None and not isinstance(value, str | int | float):
        yield field, f"expected a JSON value, got {shown(value)}"


def _members(value: _Whole, field: str) -> Iterator[tuple[str, object]]:
    """Yield what a list or mapping holds, each with its field."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield f"{field}.{name}" if field else str(name), one
    else:
        for index, one in enumerate(value):
            yield f"{field}[{index}]", one


def _wrong(operation: str, field: str, expected: str) -> AdminError:
    """Return the error for an argument that can't be sent."""
    return AdminError(operation, f"{field}: {expected}", problems=((field, expected),))


def _media_type(body: Json | bytes) -> dict[str, str]:
    if body is None:
        return {}
    yaml = isinstance(body, bytes)
    return {"Content-Type": "application/yaml" if yaml else "application/json"}


def _why(error: NoAnswer, *, changes: bool) -> str:
    """Return why there is no answer."""
    said = " ".join(str(error).split())
    if not error.was_sent:
        return f"can't reach the API ({said})"
    unknown = "; it is not known whether the change was made" if changes else ""
    return f"no complete answer ({said}){unknown}"


def _answer(operation: str, status: int, text: bytes) -> JsonPlace:
    """Return the document of an answer, or raise what it says."""
    if status // 100 == 2 and not text:
        return JsonPlace.top({})
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    place = JsonPlace("", cast("Json", document))
    if isinstance(document, dict):
        if status // 100 == 2:
            return place
        if status >= 400:
            raise _refusal(operation, status, place)
    raise AdminError(
        operation,
        f"expected an answer from Headgate's API, got {status}: {beginning_of(text)}",
        status=status,
    )


def _refusal(operation: str, status: int, problem: JsonPlace) -> AdminError:
    """Return what a problem document (RFC 9457) says."""
    try:
        problems = tuple(
            (one.text_or("field", "body"), one.text_or("reason", "not acceptable"))
            for one in problem.items("errors")
        )
        said = problem.text_or("detail", "") or problem.text_or("title", "")
    except MalformedSnapshot:
        problems, said = (), ""
    return AdminError(
        operation, said or f"refused with {status}", status=status, problems=problems
    )
