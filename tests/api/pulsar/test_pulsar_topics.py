"""A cluster's details and partitioned topics on Pulsar's Admin v2 paths."""

import httpx
import pytest

TOPIC = "/persistent/acme/orders/new/partitions"
JSON = {"Content-Type": "application/json"}


def refused(answer: httpx.Response, status: int, reason: str) -> None:
    assert (answer.status_code, answer.json()) == (status, {"reason": reason})


@pytest.fixture(autouse=True)
def namespace(pulsar: httpx.Client) -> None:
    assert pulsar.put("/tenants/acme", json={}).status_code == 204
    assert pulsar.put("/namespaces/acme/orders", json={}).status_code == 204


def test_a_cluster_says_where_it_is_served(pulsar: httpx.Client) -> None:
    (name,) = pulsar.get("/clusters").json()
    shown = pulsar.get(f"/clusters/{name}").json()
    assert shown["serviceUrl"] == str(pulsar.base_url.copy_with(path="")).rstrip("/")
    refused(pulsar.get("/clusters/none"), 404, "Cluster does not exist")


def test_a_partitioned_topic_is_made_grown_listed_and_deleted(
    pulsar: httpx.Client,
) -> None:
    assert pulsar.get(TOPIC).json() == {"partitions": 0}
    assert pulsar.put(TOPIC, content=b"3", headers=JSON).status_code == 204
    assert pulsar.get(TOPIC).json() == {"partitions": 3}
    refused(
        pulsar.put(TOPIC, content=b"3", headers=JSON), 409, "This topic already exists"
    )
    assert pulsar.post(TOPIC, content=b"5", headers=JSON).status_code == 204
    refused(
        pulsar.post(TOPIC, content=b"4", headers=JSON),
        422,
        "Desired partitions 4 can't be less than the current partitions 5.",
    )
    listed = pulsar.get("/persistent/acme/orders/partitioned").json()
    assert listed == ["persistent://acme/orders/new"]
    assert pulsar.delete(TOPIC).status_code == 204
    assert pulsar.get(TOPIC).json() == {"partitions": 0}
    refused(pulsar.delete(TOPIC), 404, "Partitioned Topic Name not found")


def test_a_deleted_namespace_takes_its_partitioned_topics_along(
    pulsar: httpx.Client,
) -> None:
    assert pulsar.put(TOPIC, content=b"3", headers=JSON).status_code == 204
    assert pulsar.delete("/namespaces/acme/orders").status_code == 204
    refused(pulsar.get(TOPIC), 404, "Namespace does not exist")
    assert pulsar.put("/namespaces/acme/orders", json={}).status_code == 204
    assert pulsar.get(TOPIC).json() == {"partitions": 0}


def test_a_rollback_brings_a_deleted_partitioned_topic_back(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    assert pulsar.put(TOPIC, content=b"3", headers=JSON).status_code == 204
    revision = rest.get("/snapshot").json()["revision"]
    assert pulsar.delete("/namespaces/acme/orders").status_code == 204
    answer = rest.post(f"/revisions/{revision}/rollback")
    assert answer.is_success, answer.text
    assert pulsar.get(TOPIC).json() == {"partitions": 3}


@pytest.mark.parametrize(
    ("body", "status"), [(b"0", 406), (b"-1", 406), (b"x", 400), (b"{}", 400)]
)
def test_what_is_no_number_of_partitions_is_refused(
    pulsar: httpx.Client, body: bytes, status: int
) -> None:
    answer = pulsar.put(TOPIC, content=body, headers=JSON)
    assert answer.status_code == status
    assert "partitions" in answer.json()["reason"]
    assert pulsar.get(TOPIC).json() == {"partitions": 0}
