"""Read the body of an apply: JSON or YAML, without YAML's surprises."""

import json
from http import HTTPStatus

import yaml
from fastapi import Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from headgate.api.apply.schemas import Quotas
from headgate.api.http.problems import field_and_reason
from headgate.api.values.errors import Invalid

MAX_YAML = 8 * 1024 * 1024
"""Bytes of a YAML body: a hundred times slower to read than JSON."""

MAX_TOLD = 20
"""Field errors told at once."""


async def quotas_of(request: Request) -> Quotas:
    """Return what the body of `request` wants.

    Raises:
        HTTPException: 400 for a body that can't be parsed.
        Invalid: It wants what can't be.
    """
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return await run_in_threadpool(_quotas, raw, is_yaml=kind.endswith("yaml"))


def _quotas(raw: bytes, *, is_yaml: bool) -> Quotas:
    try:
        content: object = _from_yaml(raw) if is_yaml else json.loads(raw)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        language = "YAML" if is_yaml else "JSON"
        where = str(error).replace("\n", " ")[:200] if is_yaml else ""
        raise HTTPException(
            HTTPStatus.BAD_REQUEST, f"expected {language} {where}".strip()
        ) from error
    try:
        return Quotas.model_validate({} if content is None else content)
    except ValidationError as error:
        told = [
            field_and_reason({**item, "loc": ("body", *item["loc"])})
            for item in error.errors()[:MAX_TOLD]
        ]
        raise Invalid(*told[0]) from error


def _from_yaml(raw: bytes) -> object:
    if len(raw) > MAX_YAML:
        raise ValueError(f"of at most {MAX_YAML} bytes; JSON may be larger")
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("without aliases: they can make much of little")
    content: object = yaml.load(raw, Loader=yaml.CSafeLoader)
    return content
