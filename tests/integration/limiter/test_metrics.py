"""Metrics through the real clients of Prometheus and OpenTelemetry."""

from __future__ import annotations

import time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from tests.integration.limiter.making import make, node_limit

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.integrations.opentelemetry import observe_limits
from headgate.agent.integrations.prometheus import LimitCollector
from headgate.coordinator.config.configuration import Attachment, Configuration, Group


def test_kip599_prometheus_sees_rate_tokens_and_throttle_time() -> None:
    enforcer = make(node_limit("requests", 0.001, 5))
    limiter = enforcer.limiter(tenant="acme")
    for _ in range(8):
        limiter.try_acquire(requests=1)
    registry = CollectorRegistry()
    registry.register(LimitCollector(enforcer))
    text = generate_latest(registry).decode()
    labels = '{dimension="requests",group="gold",scope="node"}'
    assert f"headgate_limit_admitted_total{labels} 6.0" in text
    assert f"headgate_limit_refused_total{labels} 2.0" in text
    assert f"headgate_limit_rate{labels} 0.001" in text
    assert f"headgate_limit_tokens{labels} -0.99" in text
    assert f"headgate_limit_shadow_refused_total{labels} 0.0" in text
    assert f"headgate_limit_throttle_s_total{labels} 19" in text


def test_opentelemetry_sees_the_same() -> None:
    enforcer = make(node_limit("requests", 0.001, 5))
    limiter = enforcer.limiter(tenant="acme")
    for _ in range(8):
        limiter.try_acquire(requests=1)
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    observe_limits(enforcer, provider.get_meter("test"))
    read = reader.get_metrics_data()
    provider.shutdown()
    assert read is not None
    values: dict[str, object] = {}
    for resource in read.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                (point,) = metric.data.data_points
                values[metric.name] = getattr(point, "value", None)
    assert values["headgate.limit.admitted"] == 6.0
    assert values["headgate.limit.refused"] == 2.0
    assert len(values) == 7


def test_a_thousand_groups_make_two_hundred_series_and_a_rest() -> None:
    enforcer = Enforcer(clock=time.monotonic)
    groups = tuple(
        Group(id=i, name=f"g{i}", limits=(node_limit("requests", 1, 10),))
        for i in range(1, 1_001)
    )
    attachments = tuple(Attachment((("tenant", f"t{g.id}"),), g.id) for g in groups)
    enforcer.configure(
        Configuration(revision=1, groups=groups, attachments=attachments),
        time.monotonic(),
    )
    limiters = [enforcer.limiter(tenant=f"t{i}") for i in range(1, 1_001)]
    for index, limiter in enumerate(limiters):
        limiter.try_acquire(requests=2 if index < 200 else 1)
    registry = CollectorRegistry()
    registry.register(LimitCollector(enforcer))
    lines = generate_latest(registry).decode().splitlines()
    admitted = [line for line in lines if line.startswith("headgate_limit_admitted_t")]
    assert len(admitted) == 201
    rest = [line for line in admitted if "(other)" in line]
    assert rest == [
        'headgate_limit_admitted_total{dimension="requests",group="(other)",'
        'scope="node"} 800.0'
    ]
