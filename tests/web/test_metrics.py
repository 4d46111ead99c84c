"""Metrics have bounded labels; the dashboard and the alerts ask for what exists."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.web.pictures import agent_use, picture, seen, use
from tests.web.rigs import TIMEOUT_S, Server

from headgate.api.live.snapshot import ClusterSnapshot
from headgate.api.metrics.families import MAX_AGENTS, MAX_LIMITS, LiveCollector
from headgate.api.observing.observing import Observing
from headgate.api.store import Store
from headgate.api.watch import RevisionWatch

DEPLOY = Path(__file__).parents[2] / "deploy"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

ELSEWHERE = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of Prometheus and of its client, not of the live view."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'headgate.db'}")
    yield opened
    opened.close()


def samples(store: Store, painted: ClusterSnapshot) -> Samples:
    observing = Observing(store)
    observing.see(painted)
    registry = CollectorRegistry()
    registry.register(LiveCollector(observing, RevisionWatch(3), "1.2.3"))
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def names(found: Samples) -> set[str]:
    return {name for name, _ in found}


def test_metrics_say_what_the_picture_shows(store: Store) -> None:
    one = agent_use("a", demand=80.0, admitted=60.0)
    two = agent_use("b", demand=70.0, admitted=40.0)
    found = samples(store, picture(use(1, one, two), agents=(seen("a"), seen("b"))))
    labels = (("dimension", "requests"), ("group", "group-1"))
    assert found["headgate_group_admitted_per_second", labels] == 100.0
    assert found["headgate_group_demand_per_second", labels] == 150.0
    assert found["headgate_group_refused_per_second", labels] == 50.0
    assert found["headgate_group_limit_per_second", labels] == 100.0
    assert found["headgate_group_agents", labels] == 2
    assert found["headgate_agents", (("state", "present"),)] == 2
    assert found["headgate_agents_behind", ()] == 2  # they go by revision 0 of 3


def test_labels_stay_bounded_and_those_that_refuse_come_first(store: Store) -> None:
    calm = agent_use("a", demand=1.0, admitted=1.0)
    refused = agent_use("a", demand=2.0, admitted=1.0)
    uses = [use(number, calm) for number in range(MAX_LIMITS + 10)]
    agents = [seen(f"agent-{number}") for number in range(MAX_AGENTS + 10)]
    agents.append(seen("oldest", age_s=99.0))
    painted = picture(*uses, use(999_999, refused), agents=tuple(agents))
    found = samples(store, painted)
    groups = [
        dict(labels)["group"]
        for name, labels in found
        if name == "headgate_group_limit_per_second"
    ]
    assert len(groups) == MAX_LIMITS
    assert "group-999999" in groups
    assert found["headgate_groups_omitted", ()] == 11
    told = [labels for name, labels in found if name == "headgate_agent_age_seconds"]
    assert len(told) == MAX_AGENTS
    assert (("agent", "oldest"),) in told


def expressions() -> dict[str, str]:
    """Return every query of the dashboard and of the rules, by where it stands."""
    dashboard = json.loads((DEPLOY / "grafana/headgate.json").read_text())
    rules = yaml.safe_load((DEPLOY / "prometheus/headgate.rules.yml").read_text())
    found = {
        f"panel {panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    for variable in dashboard["templating"]["list"]:
        if "definition" in variable:
            found[f"variable {variable['name']}"] = variable["definition"]
    for annotation in dashboard["annotations"]["list"]:
        found[f"annotation {annotation['name']}"] = annotation["expr"]
    for group in rules["groups"]:
        for rule in group["rules"]:
            name = rule.get("alert") or rule["record"]
            found[f"rule {name}"] = rule["expr"]
    return cast("dict[str, str]", found)


METRIC = re.compile(r"\b((?:headgate|process|up)[a-z_:]*)\b")


def test_dashboard_and_alerts_ask_for_metrics_that_exist(store: Store) -> None:
    row = agent_use("a", demand=80.0, admitted=60.0)
    painted = ClusterSnapshot(
        at_s=1.0, uses=(use(1, row),), agents=(seen("a"),), counters={"received": 1}
    )
    exist = names(samples(store, painted)) | ELSEWHERE
    rules = yaml.safe_load((DEPLOY / "prometheus/headgate.rules.yml").read_text())
    exist |= {
        rule["record"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    asked = {
        (where, name)
        for where, expression in expressions().items()
        for name in METRIC.findall(re.sub(r'"[^"]*"', "", expression))
    }
    assert len(asked) > 20
    assert {(where, name) for where, name in asked if name not in exist} == set()


def test_every_alert_says_what_it_means_and_how_bad_it_is() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus/headgate.rules.yml").read_text())
    alerts = [
        rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule
    ]
    assert alerts
    for alert in alerts:
        assert alert["annotations"].keys() == {"summary", "description"}, alert
        assert alert["labels"]["severity"] in {"info", "warning", "critical"}
        assert re.fullmatch(r"\d+[smh]", alert["for"])


def test_a_running_server_is_scraped(filled_server: Server) -> None:
    answer = httpx.get(f"{filled_server.url}/metrics", timeout=TIMEOUT_S)
    assert answer.headers["Content-Type"].startswith("text/plain")
    families = {each.name for each in text_string_to_metric_families(answer.text)}
    assert {"headgate_revision", "process_resident_memory_bytes"} <= families
