"""Public addresses are the same from a wheel and from an editable install."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ADDRESSES = sorted(path.stem for path in (ROOT / "agent" / "headgate").glob("*.py"))

SHOW = """
import importlib, sys
import headgate
assert "headgate.agent" not in sys.modules, "import headgate loads no agent"
assert {"connect", "KeyedLimiter", "Throttled"} <= set(dir(headgate))
assert headgate.KeyedLimiter(rate=1, burst=1, clock=lambda: 0.0).try_acquire("key")
for address in sys.argv[1:]:
    module = importlib.import_module(f"headgate.{address}")
    print(address, module.__file__)
"""


@pytest.mark.parametrize("build", ["build_wheel", "build_editable"])
def test_addresses_are_served(build: str, tmp_path: Path) -> None:
    make = f"from hatchling.build import {build}; {build}({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", make], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("headgate-*.whl")
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    scheme = {"base": str(home), "platbase": str(home)}
    site = Path(sysconfig.get_path("purelib", "venv", scheme))
    zipfile.ZipFile(wheel).extractall(site)
    # The libraries of this environment, without its own editable install.
    borrowed = [path for path in sys.path if Path(path).name == "site-packages"]
    (site / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    python = sysconfig.get_path("scripts", "venv", scheme) + "/python"
    shown = subprocess.check_output(
        [python, "-c", SHOW, *ADDRESSES], cwd=tmp_path, text=True
    )
    home_of = dict(line.split(" ", 1) for line in shown.splitlines())
    assert sorted(home_of) == ADDRESSES
    root = site if build == "build_wheel" else ROOT / "agent"
    for address in ADDRESSES:
        assert Path(home_of[address]) == root / "headgate" / f"{address}.py"
