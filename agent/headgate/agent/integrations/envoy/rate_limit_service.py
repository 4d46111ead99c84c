"""RLS: `envoy.service.ratelimit.v3.RateLimitService`, answered from memory."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, cast

from headgate.agent.integrations.envoy.descriptors import override
from headgate.agent.integrations.envoy.limits import AskedDescriptor, retry_in_s
from headgate.agent.integrations.envoy.messages import (
    parse_json,
    rate_limit_messages,
    to_json,
)

if TYPE_CHECKING:
    from headgate.agent.integrations.envoy.descriptors import DescriptorRule
    from headgate.agent.integrations.envoy.limits import (
        DescriptorAnswer,
        DescriptorLimits,
    )
    from headgate.agent.integrations.envoy.messages import (
        RateLimitRequest,
        WireMessage,
    )

OK, OVER_LIMIT = 1, 2
"""Codes of a response."""

MOST_DESCRIPTORS = 1_000
"""Most in one request: more would keep all other callers waiting for milliseconds."""

LONGEST_RETRY_S = 3_600.0
"""The retry-after of what is refused for ever: an hour."""


class InvalidRequest(ValueError):
    """A request can't be answered; says what was expected."""


class RateLimitService:
    """Answers rate limit requests, as gRPC and as JSON."""

    def __init__(self, limits: DescriptorLimits) -> None:
        """Answer by these limits.

        Raises:
            ModuleNotFoundError: `xds-protos` is not installed.
        """
        self._limits = limits
        self.messages = rate_limit_messages()
        self._units = {number: name for name, number in self.messages.units.items()}

    def answer(self, request: RateLimitRequest) -> WireMessage:
        """Return the response to a request.

        Raises:
            InvalidRequest: It names no domain, no descriptor or too many of them, or an
                override's unit is unknown.
        """
        if not request.domain:
            raise InvalidRequest("domain: expected a name")
        if not 0 < len(request.descriptors) <= MOST_DESCRIPTORS:
            raise InvalidRequest(
                f"descriptors: expected 1 to {MOST_DESCRIPTORS}, got"
                f" {len(request.descriptors)}"
            )
        refused, answers = self._limits.decide(request.domain, self._asked(request))
        say = self.messages
        headers = (
            [say.header(key="retry-after", value=str(_retry_s(answers)))]
            if refused
            else []
        )
        return say.response(
            overall_code=OVER_LIMIT if refused else OK,
            statuses=[self._status(one) for one in answers],
            response_headers_to_add=headers,
        )

    def answer_json(self, raw: bytes) -> tuple[bool, str]:
        """Return whether a JSON request is refused, and the response as JSON.

        Raises:
            InvalidRequest: As `answer`, or it is not such a request.
        """
        try:
            request = parse_json(raw, self.messages.request)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        response = self.answer(cast("RateLimitRequest", request))
        code = cast("int", getattr(response, "overall_code", OK))
        return code == OVER_LIMIT, to_json(response)

    def _asked(self, request: RateLimitRequest) -> list[AskedDescriptor]:
        """Return the descriptors; a cost of their own wins over the request's.

        In a descriptor 0 is a cost, in a request it is as good as absent.
        """
        usual = float(request.hits_addend or 1)
        return [
            AskedDescriptor(
                [(entry.key, entry.value) for entry in one.entries],
                float(one.hits_addend.value) if one.HasField("hits_addend") else usual,
                self._override(number, one.limit.requests_per_unit, one.limit.unit)
                if one.HasField("limit")
                else None,
                named=request.hits_addend > 0 or one.HasField("hits_addend"),
            )
            for number, one in enumerate(request.descriptors)
        ]

    def _override(self, number: int, hits: int, unit: int) -> DescriptorRule:
        name = OVERRIDE_UNITS.get(unit)
        if name is None:
            raise InvalidRequest(
                f"descriptors[{number}].limit.unit: expected one of"
                f" {', '.join(OVERRIDE_UNITS.values())}, got {unit}"
            )
        return override(hits, name)

    def _status(self, answer: DescriptorAnswer) -> WireMessage:
        say, rule = self.messages, answer.rule
        code = OVER_LIMIT if answer.over else OK
        if rule is None:
            return say.status(code=code, limit_remaining=answer.remaining)
        return say.status(
            code=code,
            current_limit=say.limit(
                name=rule.name,
                requests_per_unit=rule.requests_per_unit,
                unit=say.units[rule.unit.upper()],
            ),
            limit_remaining=answer.remaining,
            duration_until_reset=say.duration(seconds=ceil(answer.reset_s)),
        )


OVERRIDE_UNITS = {
    1: "second",
    2: "minute",
    3: "hour",
    4: "day",
    5: "month",
    6: "year",
}
"""Units of an override, by the numbers of `envoy.type.v3.RateLimitUnit`: no week."""


def _retry_s(answers: list[DescriptorAnswer]) -> int:
    return max(1, ceil(min(retry_in_s(answers), LONGEST_RETRY_S)))
