"""Dispatch, publish and subscribe rates at broker, namespace and topic level."""

from typing import Any

import httpx
import pytest

NAMESPACE = "/namespaces/acme/orders"
TOPIC = "/persistent/acme/orders/new"
BROKER = "/brokers/configuration"
DISPATCH = {
    "dispatchThrottlingRateInMsg": 100,
    "dispatchThrottlingRateInByte": 1000,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
RATES: list[tuple[str, dict[str, Any]]] = [
    ("dispatchRate", DISPATCH),
    ("subscriptionDispatchRate", DISPATCH),
    ("replicatorDispatchRate", DISPATCH),
    (
        "publishRate",
        {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 1000},
    ),
    (
        "subscribeRate",
        {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 30},
    ),
]


@pytest.fixture(autouse=True)
def world(pulsar: httpx.Client) -> None:
    assert pulsar.put("/tenants/acme", json={}).is_success
    assert pulsar.put(NAMESPACE, json={}).is_success


def limits(**members: Any) -> dict[str, Any]:
    """A policy as a snapshot says it."""
    unset = {"messages": "unlimited", "bytes": "unlimited", "period_s": 1.0}
    return {**unset, "relative_to_publish_rate": False, **members}


def configure(pulsar: httpx.Client, key: str, value: str) -> httpx.Response:
    return pulsar.post(f"{BROKER}/{key}/{value}")


def policies(rest: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = rest.get("/snapshot").json()["policies"]
    return found


@pytest.mark.parametrize(("name", "body"), RATES)
@pytest.mark.parametrize("base", [NAMESPACE, TOPIC])
def test_dispatch_rates_are_set_shown_and_unset(
    pulsar: httpx.Client, base: str, name: str, body: dict[str, Any]
) -> None:
    path = f"{base}/{name}"
    unset = pulsar.get(path)
    assert (unset.status_code, unset.content) == (200, b"")
    assert unset.headers["content-type"] == "application/json"
    assert pulsar.post(path, json=body).status_code == 204
    assert pulsar.get(path).json() == body
    assert pulsar.delete(path).status_code == 204
    assert pulsar.delete(path).status_code == 204
    assert pulsar.get(path).content == b""


def test_dispatch_defaults_are_pulsars(pulsar: httpx.Client) -> None:
    pulsar.post(f"{TOPIC}/dispatchRate", json={})
    assert pulsar.get(f"{TOPIC}/dispatchRate").json() == {
        "dispatchThrottlingRateInMsg": -1,
        "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }


def test_dispatch_policy_of_a_topic_wins_over_namespace_and_broker(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    path = f"{TOPIC}/dispatchRate"
    applied = {"applied": "true"}
    query = {"topic": "persistent://acme/orders/new", "kind": "dispatch"}

    def told() -> tuple[Any, Any]:
        effective = rest.get("/policies/effective", params=query).json()
        shown = pulsar.get(path, params=applied)
        rate = shown.json()["dispatchThrottlingRateInMsg"] if shown.content else None
        return effective["level"], rate

    assert told() == (None, None)
    configure(pulsar, "dispatchThrottlingRatePerTopicInMsg", "7")
    assert told() == ("broker", 7)
    body = {"dispatchThrottlingRateInMsg": 8}
    pulsar.post(f"{NAMESPACE}/dispatchRate", json=body)
    assert told() == ("namespace", 8)
    pulsar.post(path, json={"dispatchThrottlingRateInMsg": 9}, params={"isGlobal": 1})
    assert told() == ("topic", 9)
    pulsar.delete(path)
    assert told() == ("namespace", 8)
    assert pulsar.get(path).content == b""


def test_dispatch_policies_stand_in_the_snapshot(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    relative = {**DISPATCH, "relativeToPublishRate": True}
    pulsar.post(f"{NAMESPACE}/dispatchRate", json=relative)
    pulsar.post(
        f"{TOPIC}/subscribeRate", json={"subscribeThrottlingRatePerConsumer": 3}
    )
    configure(pulsar, "dispatchThrottlingRateInByte", "5000")
    assert policies(rest)["options"]["on_non_backlog_consumer"]
    configure(pulsar, "dispatchThrottlingOnNonBacklogConsumerEnabled", "false")
    assert policies(rest) == {
        "broker": {"broker_dispatch": limits(bytes=5000.0)},
        "namespace": {
            "acme/orders": {
                "dispatch": limits(
                    messages=100.0,
                    bytes=1000.0,
                    period_s=2.0,
                    relative_to_publish_rate=True,
                )
            }
        },
        "topic": {
            "acme/orders/new": {"subscribe": limits(messages=3.0, period_s=30.0)}
        },
        "options": {
            "precise_flow_control": False,
            "on_batch_message": False,
            "on_non_backlog_consumer": False,
        },
    }


def test_dispatch_flags_that_exclude_each_other_are_refused_together(
    pulsar: httpx.Client, unchanged: Any
) -> None:
    precise = "preciseDispatcherFlowControl"
    batch = "dispatchThrottlingOnBatchMessageEnabled"
    assert configure(pulsar, precise, "true").status_code == 200
    with unchanged():
        answer = configure(pulsar, batch, "true")
    assert (answer.status_code, answer.json()) == (
        412,
        {"reason": f"{batch}: not together with {precise}"},
    )
    assert configure(pulsar, precise, "false").status_code == 200
    assert configure(pulsar, batch, "true").status_code == 200
    assert configure(pulsar, precise, "true").status_code == 412


def test_dispatch_keys_go_by_their_names(pulsar: httpx.Client) -> None:
    keys = pulsar.get(BROKER).json()
    for scope in ("", "PerTopic", "PerSubscription"):
        for unit in ("Msg", "Byte"):
            key = f"dispatchThrottlingRate{scope}In{unit}"
            assert key in keys
            answer = configure(pulsar, key, "10")
            assert (answer.status_code, answer.content) == (200, b"")
    assert len(pulsar.get(f"{BROKER}/values").json()) == 6
    key = "dispatchThrottlingRateInMsg"
    deleted = pulsar.delete(f"{BROKER}/{key}")
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert key not in pulsar.get(f"{BROKER}/values").json()


def test_a_rate_of_zero_at_the_broker_is_none(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    configure(pulsar, "dispatchThrottlingRateInMsg", "0")
    assert policies(rest)["broker"] == {}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("maxTenants", "5", "Can't update non-dynamic configuration"),
        ("dispatchThrottlingRateInMsg", "many", None),
        ("dispatchThrottlingRateInMsg", "-2", None),
        ("dispatchThrottlingRateInMsg", "1.5", None),
        ("dispatchThrottlingRateInMsg", "9" * 30, None),
        ("preciseDispatcherFlowControl", "yes", None),
        ("resourceUsagePublishIntervalInSecs", "0", None),
    ],
)
def test_a_bad_setting_is_a_412(
    pulsar: httpx.Client, unchanged: Any, key: str, value: str, reason: str | None
) -> None:
    with unchanged():
        answer = configure(pulsar, key, value)
    assert answer.status_code == 412
    assert answer.json()["reason"].startswith(reason or f"{key}: expected")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"dispatchThrottlingRateInMsg": -2}, 412),
        ({"ratePeriodInSecond": 0}, 412),
        ({"ratePeriodInSecond": -1}, 412),
        ({"dispatchThrottlingRateInMsg": "many"}, 400),
        ({"dispatchThrottlingRateInMsg": 2**31}, 400),
        ({"relativeToPublishRate": "yes"}, 400),
        ([], 400),
    ],
)
def test_a_bad_dispatch_rate_is_refused_with_a_reason(
    pulsar: httpx.Client, unchanged: Any, body: Any, status: int
) -> None:
    with unchanged():
        for base in (NAMESPACE, TOPIC):
            answer = pulsar.post(f"{base}/dispatchRate", json=body)
            assert answer.status_code == status
            assert "expected" in answer.json()["reason"]


def test_a_rate_of_a_namespace_that_is_not_there_is_a_404(
    pulsar: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        answer = pulsar.post("/namespaces/acme/none/dispatchRate", json={})
    assert (answer.status_code, answer.json()) == (
        404,
        {"reason": "Namespace policies does not exist"},
    )


def test_what_belongs_to_a_namespace_goes_with_it(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    other = "/namespaces/acme/orders2"
    pulsar.put(other, json={})
    pulsar.put("/resourcegroups/gold", json={})
    for base in (NAMESPACE, TOPIC, other):
        pulsar.post(f"{base}/publishRate", json={"publishThrottlingRateInMsg": 5})
    pulsar.post(f"{TOPIC}/resourcegroup/gold")
    assert pulsar.delete(NAMESPACE).status_code == 204
    assert policies(rest)["topic"] == {}
    assert list(policies(rest)["namespace"]) == ["acme/orders2"]
    assert rest.get("/attachments").json()["items"] == []


@pytest.mark.parametrize(
    ("kind", "policy", "path", "shown"),
    [
        (
            "publish",
            {"messages": 600, "bytes": 90, "period_s": 60},
            "publishRate",
            {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 2},
        ),
        (
            "dispatch",
            {"messages": 100, "bytes": 0.2, "period_s": 0.5},
            "dispatchRate",
            {
                "dispatchThrottlingRateInMsg": 200,
                "dispatchThrottlingRateInByte": 1,  # 0 would admit none
                "relativeToPublishRate": False,
                "ratePeriodInSecond": 1,
            },
        ),
        (
            "subscribe",
            {"messages": 5, "period_s": 2.5},
            "subscribeRate",
            {"subscribeThrottlingRatePerConsumer": 4, "ratePeriodInSecond": 2},
        ),
    ],
)
def test_pulsar_is_told_the_rate_in_a_period_that_it_has(
    rest: httpx.Client,
    pulsar: httpx.Client,
    kind: str,
    policy: dict[str, float],
    path: str,
    shown: dict[str, Any],
) -> None:
    body = {"level": "namespace", "target": "acme/orders", "kind": kind}
    assert rest.put("/policies", json={**body, "policy": policy}).is_success
    assert pulsar.get(f"{NAMESPACE}/{path}").json() == shown


def test_policies_can_be_set_by_rest_and_are_rolled_back(rest: httpx.Client) -> None:
    body = {
        "level": "topic",
        "target": "acme/orders/new",
        "kind": "publish",
        "policy": {"messages": 5},
    }
    before = policies(rest)
    answer = rest.put("/policies", json=body)
    assert answer.status_code == 201
    assert answer.json()["policy"] == limits(messages=5.0)
    setting = {"text": "9"}
    assert rest.put("/settings/dispatchThrottlingRateInMsg", json=setting).is_success
    assert rest.get("/policies", params={"level": "topic"}).json()["items"] == [
        answer.json()
    ]
    assert rest.post("/revisions/2/rollback").is_success
    assert policies(rest) == before
    assert rest.post("/revisions/4/rollback").is_success
    query = {"level": "topic", "target": "acme/orders/new", "kind": "publish"}
    assert rest.delete("/policies", params=query).status_code == 204
    assert rest.delete("/policies", params=query).status_code == 404
    assert rest.get("/settings").json() == {"dispatchThrottlingRateInMsg": "9"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"level": "planet"}, 422),
        ({"target": "acme"}, 422),
        ({"target": "acme/none"}, 404),
        ({"kind": "publish", "policy": {"relative_to_publish_rate": True}}, 422),
        ({"policy": {"messages": -1}}, 422),
        ({"policy": {"period_s": 0}}, 422),
    ],
)
def test_a_bad_policy_is_refused(
    rest: httpx.Client, unchanged: Any, change: dict[str, Any], status: int
) -> None:
    good = {"level": "namespace", "target": "acme/orders", "kind": "dispatch"}
    with unchanged():
        answer = rest.put("/policies", json={**good, "policy": {}, **change})
    assert answer.status_code == status


def test_pip82_interval_topic_and_switch_of_publishing_are_settings(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    def report() -> object:
        return rest.get("/snapshot").json()["report"]

    assert report() == {"interval_s": 1.0, "keyframe_every": 10}
    assert configure(pulsar, "resourceUsagePublishIntervalInSecs", "5").is_success
    cycles = "resourceUsageMaxUsageReportSuppressRounds"
    assert configure(pulsar, cycles, "3").is_success
    assert report() == {"interval_s": 5.0, "keyframe_every": 3}
    assert configure(pulsar, cycles, "0").status_code == 412
    assert configure(pulsar, "resourceUsagePublishToTopic", "false").is_success
    assert rest.get("/snapshot").json()["bus"] is None
    assert configure(pulsar, "resourceUsagePublishToTopic", "true").is_success
    assert rest.get("/snapshot").json()["bus"]["kind"] == "zeromq"


def test_pip82_the_name_of_the_topic_is_refused_where_the_bus_has_no_topics(
    pulsar: httpx.Client, rest: httpx.Client, unchanged: Any
) -> None:
    key = "resourceUsagePublishTopicName"
    with unchanged():
        answers = (
            configure(pulsar, key, "usage"),
            rest.put(f"/settings/{key}", json={"text": "usage"}),
            rest.post("/apply", json={"settings": {key: "usage"}}),
        )
    assert [answer.status_code for answer in answers] == [412, 422, 422]
    for answer in answers:
        assert f"{key}: expected a bus with topics" in answer.text
