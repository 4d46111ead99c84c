"""The public names of the agent are loaded one by one."""

from __future__ import annotations

import ast
import subprocess
import sys
from inspect import getsource

import pytest

import headgate.agent


def imported() -> dict[str, str]:
    """Return the module of each name that type checkers see."""
    tree = ast.parse(getsource(headgate.agent))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        name.asname: str(node.module)
        for node in found
        for name in node.names
        if name.asname and not name.asname.startswith("_")
    }


def test_type_checkers_and_the_interpreter_find_names_in_the_same_modules() -> None:
    for name, module in imported().items():
        value = getattr(headgate.agent, name)
        assert value is getattr(sys.modules[module], name)
    assert imported().keys() | {"RefusalMode"} <= set(dir(headgate.agent))
    assert headgate.agent.RefusalMode


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        getattr(headgate.agent, "nonsense")  # noqa: B009  # the point of it


def test_an_agent_imports_no_http_client_event_loop_or_random_generator() -> None:
    program = """
import sys, headgate
agent = headgate.connect("http://127.0.0.1:1", keep_snapshot=False)
agent.limiter(tenant="acme").try_acquire(requests=1)
import headgate.agent.bus.zeromq.bus
heavy = {"httpx", "asyncio", "numpy.random", "numpy.ma", "difflib", "lzma", "rich"}
sys.exit(", ".join(heavy & set(sys.modules)) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
