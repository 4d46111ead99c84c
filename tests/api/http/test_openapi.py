"""The OpenAPI document: examples that fit, and that the server takes."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import httpx
import jsonschema
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import Addresses, ServerSettings, running

Document = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    database = str(tmp_path_factory.mktemp("openapi") / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def document(server: Addresses) -> Document:
    return cast(
        "Document", httpx.get(f"{server.api}/openapi.json", timeout=TIMEOUT_S).json()
    )


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            yield path, verb, operation


def examples(document: Document, media: Document) -> list[Any]:
    """Return the examples of a body, its own or those of its schema."""
    if "example" in media:
        return [media["example"]]
    schema = cast("Document", media.get("schema", {}))
    found = [schema, *schema.get("anyOf", ())]
    names = [each["$ref"].rsplit("/")[-1] for each in found if "$ref" in each]
    found += [document["components"]["schemas"][name] for name in names]
    return [example for each in found for example in each.get("examples", ())]


def test_every_body_has_an_example_that_fits_its_schema(document: Document) -> None:
    checked = 0
    for path, verb, operation in operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            found = examples(document, media)
            assert found, f"{verb} {path} has no example"
            for example in found:
                schema = {**media["schema"], "components": document["components"]}
                jsonschema.validate(example, schema)
                checked += 1
    assert checked > 20


def test_every_schema_that_is_named_is_there(document: Document) -> None:
    named = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document))
    assert set(named) <= set(document["components"]["schemas"])
    assert "Problem" in named


def test_what_is_shown_as_an_example_fits_its_schema(document: Document) -> None:
    schemas = document["components"]["schemas"]
    shown = [name for name, schema in schemas.items() if "examples" in schema]
    assert {"GroupShown", "AttachmentShown", "AuditEntry", "ApplyPlan"} <= set(shown)
    for name in shown:
        schema = {**schemas[name], "components": document["components"]}
        for example in schemas[name]["examples"]:
            jsonschema.validate(example, schema)


def test_the_examples_of_bodies_are_taken_in_the_order_of_the_document(
    server: Addresses, document: Document
) -> None:
    """Each example is about acme, its orders and gold; together they are a story."""
    paths = (
        ("/api/v1/tenants/acme", "/api/v1/tenants/{tenant}", "put"),
        (
            "/api/v1/namespaces/acme/orders",
            "/api/v1/namespaces/{tenant}/{namespace}",
            "put",
        ),
        ("/api/v1/groups", "/api/v1/groups", "post"),
        ("/api/v1/groups/gold", "/api/v1/groups/{name}", "put"),
        ("/api/v1/groups/gold", "/api/v1/groups/{name}", "patch"),
        ("/api/v1/attachments", "/api/v1/attachments", "put"),
        ("/api/v1/policies", "/api/v1/policies", "put"),
        ("/api/v1/overrides", "/api/v1/overrides", "put"),
        (
            "/api/v1/settings/dispatchThrottlingRateInMsg",
            "/api/v1/settings/{key}",
            "put",
        ),
        ("/api/v1/preview", "/api/v1/preview", "post"),
        ("/api/v1/apply", "/api/v1/apply", "post"),
        ("/api/v1/tokens", "/api/v1/tokens", "post"),
    )
    for path, template, verb in paths:
        operation = document["paths"][template][verb]
        body = operation.get("requestBody")
        example: Any = None
        if body:
            example = examples(document, body["content"]["application/json"])[0]
        answer = httpx.request(
            verb, f"{server.api}{path}", json=example, timeout=TIMEOUT_S
        )
        assert answer.is_success, (verb, path, answer.text)


def test_a_token_can_be_given_and_where_none_is_needed_it_says_so(
    document: Document,
) -> None:
    schemes = document["components"]["securitySchemes"]
    assert schemes["bearer"] | {"description": ""} == {
        "type": "http",
        "scheme": "bearer",
        "description": "",
    }
    assert document["security"] == [{"bearer": []}, {}]  # rights are off here
    assert document["paths"]["/healthz"]["get"]["security"] == []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            missing = {"401", "403", "429", "500", "503"} - set(operation["responses"])
            assert not missing, (method, path)
