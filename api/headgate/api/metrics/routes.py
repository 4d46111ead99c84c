"""The route `/metrics`, as Prometheus scrapes it."""

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Header, Request
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from headgate.api.http.dependencies import ServiceOf
from headgate.api.metrics.families import LiveCollector
from headgate.api.observing.observing import observing_of

router = APIRouter(tags=["health"])


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
def get_metrics(
    service: ServiceOf,
    request: Request,
    accept: Annotated[str, Header(max_length=1024)] = "",
) -> Response:
    """Return the live view per limit and agent, and this process's own figures."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    observing = observing_of(request)
    collector = LiveCollector(observing, service.watch, version("headgate"))
    registry.register(collector)
    encode, content_type = choose_encoder(accept)
    return Response(encode(registry), headers={"Content-Type": content_type})
