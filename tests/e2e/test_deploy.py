"""What is deployed holds together, as far as that can be told without Docker."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import yaml
from tools.spark_operator import crd
from typer.testing import CliRunner

from headgate.cli.options.bus_address import parse_bus
from headgate.pipeline.command import app as pipeline

ROOT = Path(__file__).parents[2]
kubernetes_validate: Any = import_module("kubernetes_validate")  # has no types
COMPOSE_SPEC = files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json"
Service = dict[str, object]


@pytest.fixture(scope="module")
def compose() -> dict[str, object]:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return cast("dict[str, object]", yaml.safe_load(text))


@pytest.fixture(scope="module")
def services(compose: dict[str, object]) -> dict[str, Service]:
    return cast("dict[str, Service]", compose["services"])


def test_the_compose_file_keeps_to_the_specification(
    compose: dict[str, object],
) -> None:
    jsonschema.validate(compose, json.loads(COMPOSE_SPEC.read_text(encoding="utf-8")))


def test_there_is_an_api_a_healthy_kafka_and_three_agents_with_load(
    services: dict[str, Service],
) -> None:
    assert {"api", "kafka", "agent-1", "agent-2", "agent-3"} <= set(services)
    assert "healthcheck" in services["kafka"]
    rates = [
        float(cast("list[str]", services[f"agent-{index}"]["command"])[-1])
        for index in (1, 2, 3)
    ]
    assert sum(rates) > 1000


def test_whatever_a_service_waits_for_is_there_and_can_come_about(
    services: dict[str, Service],
) -> None:
    for service in services.values():
        awaited = cast("dict[str, dict[str, str]]", service.get("depends_on", {}))
        for name, wait in awaited.items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert services[name].get("restart") == "no"


def test_the_api_is_given_the_bus_and_the_topic_that_are_made(
    services: dict[str, Service],
) -> None:
    command = cast("list[str]", services["api"]["command"])
    address = next(a for a in command if a.startswith("--bus=")).removeprefix("--bus=")
    settings = parse_bus(address)
    assert settings is not None
    assert settings.bootstrap == "kafka:9092"
    assert f"--topic={settings.topic}" in cast(
        "list[str]", services["topic"]["command"]
    )


def test_every_file_that_the_image_and_its_services_name_exists(
    services: dict[str, Service],
) -> None:
    for service in services.values():
        build = cast("dict[str, str]", service.get("build", {}))
        if build:
            assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    for source in re.findall(r"^COPY (?!--from)(\S+) ", dockerfile, re.MULTILINE):
        assert (ROOT / source).exists()
    assert os.access(ROOT / "deploy/configure.sh", os.X_OK)
    assert "/examples/worker.py" in cast("list[str]", services["agent-1"]["command"])


def test_the_image_asks_for_tokens_and_does_not_run_as_root() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    assert found is not None
    command: list[str] = json.loads(found[1])
    assert command[:4] == ["headgate", "up", "--host", "0.0.0.0"]
    assert "--rights" in command
    assert "--trust-network" not in command
    final = dockerfile[dockerfile.rindex("\nFROM ") :]
    assert re.findall(r"^USER (\S+)$", final, re.MULTILINE)[-1:] == ["headgate"]


def test_the_script_that_configures_is_understood_by_a_shell() -> None:
    script = ROOT / "deploy/configure.sh"
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=30)


KUBERNETES = ("1.27", "1.33", "1.37")
"""Oldest that the chart allows, and newer ones whose schemas are at hand."""


def documents(text: str) -> list[dict[str, object]]:
    found = cast("list[object]", list(yaml.safe_load_all(text)))
    return [cast("dict[str, object]", one) for one in found if one]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_would_accept_the_manifests(version: str) -> None:
    text = (ROOT / "deploy/kubernetes/headgate.yaml").read_text(encoding="utf-8")
    found = documents(text)
    assert [one["kind"] for one in found] == ["Service", "StatefulSet"]
    for one in found:
        kubernetes_validate.validate(one, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**found[0], "specs": {}}, version, strict=True)


def closed(schema: object) -> object:
    """The schema of a custom resource, with fields that it doesn't name refused."""
    if isinstance(schema, list):
        return [closed(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, object]", schema)
    found = {name: closed(one) for name, one in fields.items()}
    if isinstance(fields.get("properties"), dict) and "type" in fields:
        found.setdefault("additionalProperties", False)
    return found


def test_sparks_operator_would_accept_the_pipeline() -> None:
    definition = yaml.safe_load(crd().read_text(encoding="utf-8"))
    (version,) = (v for v in definition["spec"]["versions"] if v["name"] == "v1beta2")
    schema = cast("dict[str, object]", closed(version["schema"]["openAPIV3Schema"]))
    # Names that every object has are left open there.
    cast("dict[str, dict[str, object]]", schema["properties"])["metadata"] = {}
    text = (ROOT / "deploy/kubernetes/pipeline.yaml").read_text(encoding="utf-8")
    claim, application = documents(text)
    kubernetes_validate.validate(claim, KUBERNETES[-1], strict=True)
    jsonschema.validate(application, schema)
    spec = cast("dict[str, object]", application["spec"])
    for wrong in ({"cores": 2}, {"mode": "remote"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**application, "spec": spec | wrong}, schema)
    arguments = cast("list[str]", spec["arguments"])
    assert arguments[0] == "run"
    helped = CliRunner().invoke(pipeline, ["run", "--help"], terminal_width=200).output
    for option in arguments:
        assert not option.startswith("--") or option in helped
    main = cast("str", spec["mainApplicationFile"])
    assert main.endswith("/headgate/pipeline/submit/headgate_pipeline.py")


def test_the_pod_runs_without_root_and_with_rights() -> None:
    text = (ROOT / "deploy/kubernetes/headgate.yaml").read_text(encoding="utf-8")
    for needed in ("--rights", "runAsNonRoot: true", "readOnlyRootFilesystem: true"):
        assert needed in text
    assert "--trust-network" not in text
    dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    chart = "deploy/helm/headgate/templates/statefulset.yaml"
    for file in ("deploy/kubernetes/headgate.yaml", chart):
        user = re.search(r"runAsUser: (\d+)", (ROOT / file).read_text(encoding="utf-8"))
        assert user is not None
        assert f"--uid {user[1]} " in dockerfile


def test_profiles_add_postgresql_and_the_pipeline(services: dict[str, Service]) -> None:
    assert services["postgres"]["profiles"] == ["postgres"]
    assert services["pipeline"]["profiles"] == ["pipeline"]
    awaited = cast("dict[str, dict[str, object]]", services["api"]["depends_on"])
    assert awaited["postgres"]["required"] is False
