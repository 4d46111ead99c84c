"""The same limits over HTTP: `/json`, `/forward-auth` and `/auth-request`.

`POST /json` takes and returns RLS's messages as JSON, as envoyproxy/ratelimit does:
200, or 429 when refused.

`/forward-auth/DOMAIN?KEY=HEADER` is for Traefik's forwardAuth and its like: each
parameter names a key of the descriptor and the request's header that holds its value;
a header that is missing leaves its key out.  200, or 429 with Retry-After.
`/auth-request/DOMAIN?KEY=HEADER` is the same for nginx's auth_request, which
understands nothing but 2xx, 401 and 403: a refusal is a 403.  Values are in headers
rather than in the address, because a proxy that pastes a client's text into an address
lets the client write other keys.
"""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate.agent.integrations.envoy.limits import AskedDescriptor
from headgate.agent.integrations.envoy.rate_limit_service import (
    LONGEST_RETRY_S,
    InvalidRequest,
)
from headgate.agent.integrations.web.headers import header_text

if TYPE_CHECKING:
    from starlette.requests import Request

    from headgate.agent.integrations.envoy.limits import (
        DescriptorAnswer,
        DescriptorLimits,
    )
    from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService

LARGEST_BODY = 1 << 20
"""Most bytes of a JSON request."""

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""A proxy may ask with the method of the request that it holds."""

HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
"""A token (RFC 9110)."""

TOO_LARGE = 413


def endpoints(service: RateLimitService, limits: DescriptorLimits) -> Starlette:
    """Return the application."""

    async def json(request: Request) -> Response:
        body = bytearray()
        try:
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    return PlainTextResponse(
                        f"expected at most {LARGEST_BODY} bytes\n", TOO_LARGE
                    )
            refused, text = service.answer_json(bytes(body))
        except ClientDisconnect:
            return Response()  # nobody reads it
        except InvalidRequest as error:
            return PlainTextResponse(f"{error}\n", 400)
        status = 429 if refused else 200
        return Response(text, status, media_type="application/json")

    async def forward_auth(request: Request) -> Response:
        return _authorised(limits, request, refused_status=429)

    async def auth_request(request: Request) -> Response:
        return _authorised(limits, request, refused_status=403)

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("OK\n")

    return Starlette(
        routes=[
            Route("/json", json, methods=["POST"]),
            Route("/forward-auth/{domain}", forward_auth, methods=METHODS),
            Route("/auth-request/{domain}", auth_request, methods=METHODS),
            Route("/healthcheck", healthy),
        ]
    )


def _authorised(
    limits: DescriptorLimits, request: Request, *, refused_status: int
) -> Response:
    domain = request.path_params["domain"]
    if domain not in limits.domains:
        return PlainTextResponse(f"there is no domain {domain!r:.80}\n", 404)
    entries = list[tuple[str, str]]()
    for key, header in request.query_params.multi_items():
        if not HEADER_NAME.fullmatch(header):
            said = f"{key!r:.80}: expected the name of a header, got {header!r:.80}\n"
            return PlainTextResponse(said, 400)
        if not key:
            said = f"expected a descriptor's key before the header {header!r:.80}\n"
            return PlainTextResponse(said, 400)
        value = request.headers.get(header)
        if value is not None:
            entries.append((key, header_text(value)))
    refused, (answer,) = limits.decide(domain, [AskedDescriptor(entries)])
    response = PlainTextResponse(
        "over the limit\n" if refused else "", refused_status if refused else 200
    )
    response.headers.update(_headers(answer, refused=refused))
    return response


def _headers(answer: DescriptorAnswer, *, refused: bool) -> dict[str, str]:
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    if refused:
        retry_s = ceil(min(answer.retry_s, LONGEST_RETRY_S))
        headers["retry-after"] = str(max(1, retry_s))
    return headers
