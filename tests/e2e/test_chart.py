"""The Helm chart as Helm renders it; `tools.helm` builds the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from tools.helm import HELM

pytestmark = pytest.mark.skipif(
    not HELM.exists(), reason="no Helm: `python -m tools.helm` builds it with Go 1.21+"
)

ROOT = Path(__file__).parents[2]
kubernetes_validate: Any = import_module("kubernetes_validate")  # has no types
Document = dict[str, Any]

OLDEST = "1.27"
"""The chart says that it needs no newer one."""

VERSIONS = (OLDEST, "1.33", "1.37")
"""Of Kubernetes, whose schemas are at hand."""

SHARED: Document = {
    "replicas": 3,
    "database": {"existingSecret": "quota-database"},
    "bus": {"address": "kafka://kafka:9092/headgate-usage"},
}

EVERYTHING: Document = SHARED | {
    "image": {
        "repository": "registry.example/headgate",
        "tag": "2",
        "pullSecrets": [{"name": "pull"}],
    },
    "extraArgs": ["--allowed-host=quota.example"],
    "service": {"type": "LoadBalancer", "annotations": {"a.example/b": "c"}},
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True, "tokenSecret": "scrape"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "quota", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}

VALUES: dict[str, Document] = {
    "defaults": {},
    "without rights": {"rights": False},
    "a storage class": {"persistence": {"storageClass": "fast", "size": "5Gi"}},
    "a database by URL": {"database": {"url": "postgresql://u@db/headgate"}},
    "three replicas": SHARED,
    "everything": EVERYTHING,
}


def helm(values: Document, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HELM, "template", "quota", ROOT / "deploy/helm/headgate", "--values=-",
         "--namespace=limits", "--kube-version", f"{version}.0"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip


def rendered(values: Document, version: str = VERSIONS[-1]) -> dict[str, Document]:
    """Return the documents by their kind; there is one of each."""
    done = helm(values, version)
    assert done.returncode == 0, done.stderr
    found = [cast("Document", one) for one in yaml.safe_load_all(done.stdout) if one]
    by_kind = {str(one["kind"]): one for one in found}
    assert len(by_kind) == len(found)
    return by_kind


def container(values: Document) -> Document:
    """Return the one that serves."""
    pod = rendered(values)["StatefulSet"]["spec"]["template"]["spec"]
    return cast("Document", pod["containers"][0])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_kubernetes_would_accept_what_helm_renders(
    values: Document, version: str
) -> None:
    found = rendered(values, version)
    assert {"Service", "StatefulSet"} <= set(found)
    found.pop("ServiceMonitor", None)  # of the Prometheus operator, not of Kubernetes
    for one in found.values():
        kubernetes_validate.validate(one, version, strict=True)


def test_what_is_off_is_not_there_and_what_is_on_is() -> None:
    assert set(rendered({})) == {"Service", "StatefulSet"}
    on = rendered(EVERYTHING)
    assert set(on) == {"Service", "StatefulSet", "NetworkPolicy", "ServiceMonitor"}
    endpoint = on["ServiceMonitor"]["spec"]["endpoints"][0]
    assert endpoint["authorization"]["credentials"] == {
        "name": "scrape",
        "key": "token",
    }


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_selectors_find_the_pods_and_ports_have_names_that_exist(
    values: Document,
) -> None:
    found = rendered(values)
    template = found["StatefulSet"]["spec"]["template"]
    labels = template["metadata"]["labels"].items()
    for kind, field in (("Service", "selector"), ("StatefulSet", "selector")):
        selector = found[kind]["spec"][field]
        selector = selector.get("matchLabels", selector)
        assert selector
        assert selector.items() <= labels
    ports = {one["name"] for one in template["spec"]["containers"][0]["ports"]}
    assert {one["targetPort"] for one in found["Service"]["spec"]["ports"]} <= ports
    assert (
        found["StatefulSet"]["spec"]["serviceName"]
        == found["Service"]["metadata"]["name"]
    )
    mounted = {one["name"] for one in template["spec"]["volumes"]}
    claims = found["StatefulSet"]["spec"].get("volumeClaimTemplates", [])
    mounted |= {one["metadata"]["name"] for one in claims}
    for one in template["spec"]["containers"]:
        assert {mount["name"] for mount in one["volumeMounts"]} <= mounted


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_headgate_knows_every_argument_that_the_pod_passes(values: Document) -> None:
    command, verb, *options = container(values)["args"]
    assert (command, verb) == ("headgate", "up")
    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli", "up", "--help"],
        env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=True,
    )
    known = set(re.findall(r"--[a-z-]+", done.stdout))
    assert {option.partition("=")[0] for option in options} <= known


def test_rights_are_on_unless_they_are_turned_off() -> None:
    assert "--rights" in container({})["args"]
    without = container({"rights": False})["args"]
    assert "--rights" not in without
    assert "--trust-network" in without


def test_a_password_comes_from_the_secret() -> None:
    (variable,) = container(SHARED)["env"]
    source = variable["valueFrom"]["secretKeyRef"]
    assert source == {"name": "quota-database", "key": "url"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": 2}, "replicas: more than one needs bus.address"),
        ({"replica": 1}, "replica"),
        ({"service": {"type": "External"}}, "service.type"),
    ],
)
def test_wrong_values_are_refused_with_their_place(values: Document, said: str) -> None:
    done = helm(values, OLDEST)
    assert done.returncode != 0
    assert said in done.stderr


def test_an_older_kubernetes_is_refused() -> None:
    done = helm({}, "1.26")
    assert done.returncode != 0
    assert "kubeVersion" in done.stderr
