"""Names in headers: frameworks give bytes, or text that they took for Latin-1."""

from __future__ import annotations

import pytest

from headgate import asgi, wsgi
from headgate.agent.integrations.web.headers import header_text


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b"acme", "acme"),
        ("müller".encode(), "müller"),
        ("müller".encode("latin-1"), "müller"),
        ("東京".encode(), "東京"),
        (b"\xff\xfe", "ÿþ"),
        (b"", ""),
    ],
)
def test_a_name_is_utf8_if_its_bytes_are_and_latin1_if_not(
    sent: bytes, meant: str
) -> None:
    scope: asgi.Scope = {"headers": [(b"x-tenant", sent)]}
    environ = {"HTTP_X_TENANT": sent.decode("latin-1")}  # PEP 3333
    assert asgi.header(scope, b"x-tenant") == meant
    assert wsgi.header(environ, "x-tenant") == meant


def test_a_text_that_was_decoded_already_stays_as_it_is() -> None:
    assert header_text("東京") == "東京"


def test_a_header_that_is_missing_is_none() -> None:
    assert asgi.header({"headers": []}, b"x-tenant") is None
    assert wsgi.header({}, "X-Tenant") is None
