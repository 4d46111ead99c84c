"""Read the body of an apply: JSON or YAML, without YAML's surprises."""

from http import HTTPStatus

import yaml
from fastapi import Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from headgate.api.apply.parsing import TooLarge, parse_json, parse_yaml
from headgate.api.apply.schemas import Quotas
from headgate.api.http.problems import field_and_reason, reason_unread
from headgate.api.values.errors import Invalid

MAX_TOLD = 20
"""Most field errors in one answer."""


async def quotas_of(request: Request) -> Quotas:
    """Parse the body of `request`.

    Raises:
        HTTPException: 400 for a body that can't be parsed, 413 for one too large.
        Invalid: It asks for something that can't be accepted.
    """
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return await run_in_threadpool(_quotas, raw, is_yaml=kind.endswith("yaml"))


def _quotas(raw: bytes, *, is_yaml: bool) -> Quotas:
    language = "YAML" if is_yaml else "JSON"
    try:
        content = parse_yaml(raw) if is_yaml else parse_json(raw)
    except TooLarge as error:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
    except (ValueError, yaml.YAMLError) as error:
        where = reason_unread(error) or str(error).replace("\n", " ")[:200]
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{language}: {where}") from error
    try:
        return Quotas.model_validate({} if content is None else content)
    except ValidationError as error:
        told = [
            field_and_reason({**item, "loc": ("body", *item["loc"])})
            for item in error.errors()[:MAX_TOLD]
        ]
        raise Invalid(*told[0]) from error
