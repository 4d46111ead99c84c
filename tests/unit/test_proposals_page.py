"""The page on the source proposals names modules and tests that exist."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import headgate.agent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "proposals.md"
SECTIONS = (
    "PIP-82: resource groups",
    "PIP-322: rate limiting",
    "Dispatch throttling",
    "KIP-599: controller quotas",
    "Ably",
)
CODE = re.compile(r"`([^`]+)`")
UNTESTED = ("*measured*", "*not built*")
"""What a row says instead of a test."""


def rows() -> list[tuple[str, str, str]]:
    """Return what is asked, where it lives and its tests, of every row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in lines
        if line.startswith("| ") and not line.startswith("| asked |")
    ]
    assert all(len(row) == 3 for row in cells)
    return [(asked, where, tests) for asked, where, tests in cells]


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(x.name for x in tree.body if isinstance(x, functions))


def exists(name: str) -> bool:
    """Whether a module, folder or public name of the library exists."""
    if "/" in name:
        return (ROOT / name).exists()
    parts = re.split(r"[(=]", name)[0].split(".")
    if parts[0] == "headgate":
        found: object = import_module(".".join(parts[:2]))
        parts = parts[2:]
    else:
        found = _public(parts.pop(0))
    return found is not None and all(
        (found := getattr(found, part, None)) is not None for part in parts
    )


def _public(name: str) -> object:
    """Return a name of `headgate`, or of one of its integrations."""
    modules = ("headgate.asgi", "headgate.grpc", "headgate.kafka", "headgate.httpx")
    for module in (headgate.agent, *map(import_module, modules)):
        if hasattr(module, name):
            return getattr(module, name)
    return None


def test_each_proposal_has_its_section() -> None:
    titles = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(titles) == SECTIONS


@pytest.mark.parametrize(
    ("asked", "where", "tests"), rows(), ids=lambda each: each[:50]
)
def test_each_row_names_modules_and_tests_that_exist(
    asked: str, where: str, tests: str
) -> None:
    if "*not built*" not in where:
        # Settings, such as `split` or `mute_refused=True`, are in lower case.
        places = [
            x for x in CODE.findall(where) if "/" in x or "." in x or x[0].isupper()
        ]
        assert places, asked
        assert [name for name in places if not exists(name)] == []
    named = CODE.findall(tests)
    assert named or any(word in where + tests for word in UNTESTED), asked
    for path, _, name in (one.partition("::") for one in named):
        assert name in names_in(ROOT / path), f"{path}::{name}"
