"""Envoy's protocol buffers, with the types that a checker needs.

The generated modules of `xds-protos` come without types; the parts that are used are
declared here.  They are imported when a server is made, so that this package can be
read and its rules used without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MessageT = TypeVar("MessageT")


class WireMessage(Protocol):
    """A protobuf message."""

    def HasField(self, field_name: str) -> bool:  # protobuf's name
        """Return whether a message field is set."""
        ...

    def SerializeToString(self) -> bytes:  # protobuf's name
        """Return the message as bytes."""
        ...


class WireClass(Protocol):
    """A class of protobuf messages."""

    def __call__(self, **fields: object) -> WireMessage:
        """Make a message."""
        ...

    def FromString(self, data: bytes) -> WireMessage:  # protobuf's name
        """Return the message that bytes hold."""
        ...


class _Entry(Protocol):
    key: str
    value: str


class _Override(Protocol):
    requests_per_unit: int
    unit: int


class _Whole(Protocol):
    value: int


class _Descriptor(WireMessage, Protocol):
    entries: Sequence[_Entry]
    limit: _Override
    hits_addend: _Whole


class RateLimitRequest(WireMessage, Protocol):
    """`envoy.service.ratelimit.v3.RateLimitRequest`."""

    domain: str
    descriptors: Sequence[_Descriptor]
    hits_addend: int


class _Seconds(Protocol):
    seconds: int
    nanos: int


class _BucketId(Protocol):
    bucket: Mapping[str, str]


class BucketUsage(WireMessage, Protocol):
    """`RateLimitQuotaUsageReports.BucketQuotaUsage`."""

    bucket_id: _BucketId
    time_elapsed: _Seconds
    num_requests_allowed: int
    num_requests_denied: int


class UsageReports(WireMessage, Protocol):
    """`envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports`."""

    domain: str
    bucket_quota_usages: Iterable[BucketUsage]


class CallContext(Protocol):
    """A call, as `grpc.aio` shows it to its servicer."""

    def peer(self) -> str:
        """Return the caller's address."""
        ...

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """Return the metadata that the caller sent."""
        ...

    async def abort(self, code: object, details: str) -> None:
        """End the call with a status; raises."""


class _JsonFormat(Protocol):
    ParseError: type[Exception]

    def Parse(  # protobuf's name
        self, text: bytes, message: MessageT, *, ignore_unknown_fields: bool
    ) -> MessageT: ...
    def MessageToJson(  # protobuf's name
        self, message: WireMessage, *, indent: int | None
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class RateLimitMessages:
    """The messages of RLS.

    Attributes:
        request: `RateLimitRequest`.
        response: `RateLimitResponse`.
        status: Of one descriptor in a response.
        limit: The limit that a status shows.
        header: A header that a response adds.
        duration: Seconds.
        units: Numbers of the response's units, by upper-case name.
    """

    request: WireClass
    response: WireClass
    status: WireClass
    limit: WireClass
    header: WireClass
    duration: WireClass
    units: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QuotaMessages:
    """The messages of RLQS.

    Attributes:
        reports: `RateLimitQuotaUsageReports`.
        response: `RateLimitQuotaResponse`.
        action: What the server says about one bucket.
        assignment: Gives a bucket a strategy for some time.
        abandon: Tells that a bucket is forgotten.
        bucket_id: Keys and values.
        strategy: How a bucket is enforced.
        token_bucket: A strategy's tokens.
        whole: An unsigned integer that may be absent.
        duration: Seconds.
    """

    reports: WireClass
    response: WireClass
    action: WireClass
    assignment: WireClass
    abandon: WireClass
    bucket_id: WireClass
    strategy: WireClass
    token_bucket: WireClass
    whole: WireClass
    duration: WireClass


def rate_limit_messages() -> RateLimitMessages:
    """Return RLS's messages.

    Raises:
        ModuleNotFoundError: `xds-protos` is not installed.
    """
    rls = "envoy.service.ratelimit.v3.rls_pb2"
    response = _named(rls, "RateLimitResponse")
    limit = _inner(response, "RateLimit")
    units = cast("_Enum", _inner(limit, "Unit"))
    return RateLimitMessages(
        request=_named(rls, "RateLimitRequest"),
        response=response,
        status=_inner(response, "DescriptorStatus"),
        limit=limit,
        header=_named("envoy.config.core.v3.base_pb2", "HeaderValue"),
        duration=_named("google.protobuf.duration_pb2", "Duration"),
        units=dict(units.items()),
    )


def quota_messages() -> QuotaMessages:
    """Return RLQS's messages.

    Raises:
        ModuleNotFoundError: `xds-protos` is not installed.
    """
    rlqs = "envoy.service.rate_limit_quota.v3.rlqs_pb2"
    response = _named(rlqs, "RateLimitQuotaResponse")
    action = _inner(response, "BucketAction")
    return QuotaMessages(
        reports=_named(rlqs, "RateLimitQuotaUsageReports"),
        response=response,
        action=action,
        assignment=_inner(action, "QuotaAssignmentAction"),
        abandon=_inner(action, "AbandonAction"),
        bucket_id=_named(rlqs, "BucketId"),
        strategy=_named("envoy.type.v3.ratelimit_strategy_pb2", "RateLimitStrategy"),
        token_bucket=_named("envoy.type.v3.token_bucket_pb2", "TokenBucket"),
        whole=_named("google.protobuf.wrappers_pb2", "UInt32Value"),
        duration=_named("google.protobuf.duration_pb2", "Duration"),
    )


def parse_json(raw: bytes, kind: WireClass) -> WireMessage:
    """Return the message that JSON holds; unknown fields are ignored.

    Raises:
        ValueError: The text is no JSON object, or a field has the wrong type; says
            which.
    """
    json = _json_format()
    if not raw.lstrip().startswith(b"{"):
        got = raw[:40].decode(errors="replace")
        raise ValueError(f"expected a JSON object, got {got!r}")
    try:
        return json.Parse(raw, kind(), ignore_unknown_fields=True)
    except (json.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None


def to_json(message: WireMessage) -> str:
    """Return a message as JSON on one line."""
    return _json_format().MessageToJson(message, indent=None)


class _Enum(Protocol):
    def items(self) -> Iterable[tuple[str, int]]: ...


def _json_format() -> _JsonFormat:
    return cast("_JsonFormat", import_module("google.protobuf.json_format"))


def _named(module: str, name: str) -> WireClass:
    return cast("WireClass", getattr(import_module(module), name))


def _inner(outer: WireClass, name: str) -> WireClass:
    return cast("WireClass", getattr(outer, name))
