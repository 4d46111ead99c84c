"""The OpenAPI document, with the schemas that routes name but FastAPI doesn't see."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from headgate.api.groups.schemas import GroupBody
from headgate.api.http.problems import Problem

NAMED = (Problem, GroupBody)
"""Models of refusals and of parts of `/apply`, which routes name by reference."""


def complete(app: FastAPI) -> None:
    """Let the document of `app` have the schemas of `NAMED`."""
    usual = app.openapi

    def document() -> dict[str, Any]:
        found = usual()
        _, made = models_json_schema(
            [(model, "validation") for model in NAMED],
            ref_template="#/components/schemas/{model}",
        )
        schemas: dict[str, Any] = found["components"]["schemas"]
        for name, schema in made["$defs"].items():
            schemas.setdefault(name, schema)
        return found

    app.openapi = document  # type: ignore[method-assign] # how FastAPI wants it
