"""The source tree keeps the promises that builds, readers and newcomers rely on."""

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN = ("coordinator", "agent", "api", "cli", "pipeline", "simulation")
"""The components whose source is written by hand."""

COMPONENTS = (*WRITTEN, "proto")

MAX_MODULES = 15
"""In one folder; more than that is a list that nobody reads."""


def source(component: str) -> Path:
    return ROOT / component / "headgate" / component


def module_name(path: Path, component: str) -> str:
    parts = path.relative_to(ROOT / component).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules(component: str) -> dict[str, ast.Module]:
    return {
        module_name(path, component): ast.parse(path.read_text(encoding="utf-8"))
        for path in source(component).rglob("*.py")
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module imports, wherever: also only for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports name the whole path"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folders_with_modules(top: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder in (top, *(path for path in top.rglob("*") if path.is_dir())):
        found = sorted(
            path.name for path in folder.glob("*.py") if path.name != "__init__.py"
        )
        if found:
            yield folder, found


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_is_one_portion_of_the_namespace(component: str) -> None:
    portion = ROOT / component / "headgate"
    assert not (portion.parent / "__init__.py").exists(), "would shadow `proto`, `api`…"
    assert not (portion / "__init__.py").exists(), "would hide every other component"
    folders = {p.name for p in portion.iterdir() if p.is_dir()} - {"__pycache__"}
    assert folders == {component}
    module = importlib.import_module(f"headgate.{component}")
    assert module.__file__ == str(portion / component / "__init__.py")


def test_no_top_level_folder_is_a_package() -> None:
    """`python -m` puts the checkout on the path: `proto/__init__.py` would win."""
    assert not list(ROOT.glob("*/__init__.py"))


def test_the_top_level_name_proto_is_not_ours() -> None:
    assert hasattr(importlib.import_module("proto"), "Message")  # proto-plus


@pytest.mark.parametrize(
    "top", [*(source(one) for one in WRITTEN), ROOT / "tests", ROOT / "bench"]
)
def test_no_folder_holds_more_modules_than_a_reader_can_overlook(top: Path) -> None:
    crowded = {
        str(folder.relative_to(ROOT)): len(found)
        for folder, found in folders_with_modules(top)
        if len(found) > MAX_MODULES
    }
    assert not crowded


@pytest.mark.parametrize("component", WRITTEN)
def test_every_package_says_what_belongs_there(component: str) -> None:
    silent = [
        str(folder.relative_to(ROOT))
        for folder, _ in folders_with_modules(source(component))
        if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert not silent


@pytest.mark.parametrize("component", WRITTEN)
def test_no_module_imports_itself_by_way_of_others(component: str) -> None:
    found = modules(component)
    graph: dict[str, set[str]] = {}
    for name, tree in found.items():
        targets = {
            one if one in found else one.rpartition(".")[0] for one in imported(tree)
        }
        graph[name] = (targets & set(found)) - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" → ".join(cycle.args[1]))


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for component in WRITTEN:
        for name, tree in modules(component).items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(name)
    assert not {name: where for name, where in places.items() if len(where) > 1}
