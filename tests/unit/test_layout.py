"""The source tree keeps the promises that the build relies on."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPONENTS = ("coordinator", "agent", "api", "cli", "pipeline", "simulation", "proto")


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_is_one_portion_of_the_namespace(component: str) -> None:
    portion = ROOT / component / "headgate"
    assert not (portion.parent / "__init__.py").exists(), "would shadow `proto`, `api`…"
    assert not (portion / "__init__.py").exists(), "would hide every other component"
    assert sorted(p.name for p in portion.iterdir() if p.is_dir()) == [component]
    module = importlib.import_module(f"headgate.{component}")
    assert module.__file__ == str(portion / component / "__init__.py")


def test_no_top_level_folder_is_a_package() -> None:
    """`python -m` puts the checkout on the path: `proto/__init__.py` would win."""
    assert not list(ROOT.glob("*/__init__.py"))


def test_the_top_level_name_proto_is_not_ours() -> None:
    assert hasattr(importlib.import_module("proto"), "Message")  # proto-plus
