"""Workflow, issue forms and hooks are valid and run what the Makefile runs."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCHEMAS = files("check_jsonschema.builtin_schemas.vendor")


def document(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    # YAML 1.1 reads the key `on` as true; GitHub reads YAML 1.2.
    return {"on" if key is True else key: value for key, value in read.items()}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        (".github/workflows/ci.yml", "github-workflows.json"),
        (".github/ISSUE_TEMPLATE/bug.yml", "github-issue-forms.json"),
        (".github/ISSUE_TEMPLATE/feature.yml", "github-issue-forms.json"),
        (".github/ISSUE_TEMPLATE/config.yml", "github-issue-config.json"),
    ],
)
def test_github_would_accept_the_file(name: str, schema: str) -> None:
    text = (SCHEMAS / schema).read_text(encoding="utf-8")
    jsonschema.validate(document(name), json.loads(text))


def test_the_workflow_runs_what_contributors_run() -> None:
    steps = document(".github/workflows/ci.yml")["jobs"]["test"]["steps"]
    assert "make test" in [step.get("run") for step in steps]


def test_the_hooks_run_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = re.search(r"^check: ([a-z ]+)", makefile, re.MULTILINE)
    assert check is not None
    (repository,) = document(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries == [f"make {target}" for target in check[1].split()]
