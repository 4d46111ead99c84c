"""The OpenAPI document, with the schemas that routes name but FastAPI doesn't see."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from headgate.api.apply.schemas import AttachmentItem
from headgate.api.groups.schemas import GroupBody
from headgate.api.http.problems import Problem, Reason
from headgate.api.rights.rules import is_open

NAMED = (Problem, Reason, GroupBody, AttachmentItem)
"""Models of refusals and of parts of `/apply`, which routes name by reference."""


SCHEME = "bearer"
"""Name of the security scheme, as Swagger's *Authorize* shows it."""


def complete(app: FastAPI, *, required: bool) -> None:
    """Add the schemas of `NAMED` and the required roles to the document of `app`.

    Args:
        app: The application, with all routes.
        required: Whether a token is required, or only accepted.
    """
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
        found["components"]["securitySchemes"] = {
            SCHEME: {
                "type": "http",
                "scheme": "bearer",
                "description": "`headgate token create NAME --role ROLE` creates one.",
            }
        }
        found["security"] = [{SCHEME: []}] if required else [{SCHEME: []}, {}]
        for path, operations in found["paths"].items():
            if is_open(path):
                for operation in operations.values():
                    operation["security"] = []
        return found

    app.openapi = document  # type: ignore[method-assign] # how FastAPI wants it
