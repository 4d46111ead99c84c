"""Wheel hook: the package's front door, and compiled hot modules on request.

In a checkout no folder ``headgate/`` holds an ``__init__.py``: each component is
one portion of a namespace, which is what type checkers understand.  A wheel gets
``tools/front_door.py`` as ``headgate/__init__.py``: it makes ``headgate.connect``
reachable, and lets Spark import the wheel unpacked (zipimport does not see a
namespace package in an archive that, like every wheel, lists no directories).
An editable install gets a finder that serves the same file, with all portions as
the package's path; type checkers do not read it and see the portions alone.

``HEADGATE_COMPILE=mypyc`` compiles the modules in `HOT` next to their sources.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FRONT_DOOR = "tools/front_door.py"
COMPONENTS = (
    "coordinator",
    "agent",
    "api",
    "cli",
    "pipeline",
    "simulation",
    "proto",
)
FINDER = '''"""Serve `import headgate` from a checkout (written by hatch_build.py)."""

import sys
from importlib.util import spec_from_file_location


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "headgate":
            return None
        return spec_from_file_location(
            name, {front_door!r}, submodule_search_locations={portions!r}
        )


sys.meta_path.insert(0, _Finder)

# griffe reads where the sources are from the last line of such a file.
# map_module('headgate', {source!r})
'''
COMPILE = os.environ.get("HEADGATE_COMPILE") == "mypyc"
HOT = (
    "agent/headgate/agent/bucket/chance.py",
    "agent/headgate/agent/bucket/suppression.py",
    "agent/headgate/agent/bucket/level.py",
    "agent/headgate/agent/bucket/bucket.py",
    "agent/headgate/agent/bucket/chain.py",
    "agent/headgate/agent/limiter/handle.py",
    "agent/headgate/agent/limiter/keyed.py",
    "agent/headgate/agent/limiter/refusal.py",
    "agent/headgate/agent/limiter/limiter.py",
)


class WheelHook(BuildHookInterface[Any]):
    """Add what the source tree does not hold to the wheel."""

    def dependencies(self) -> list[str]:
        """Return what this build needs beyond hatchling."""
        return ["mypy[mypyc]>=1.18", "setuptools>=77"] if COMPILE else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before the files of the wheel are collected."""
        self._scratch = scratch = Path(tempfile.mkdtemp(prefix="headgate-build-"))
        if version == "editable":
            finder = FINDER.format(
                front_door=str(Path(self.root, FRONT_DOOR)),
                portions=[str(Path(self.root, c, "headgate")) for c in COMPONENTS],
                source=str(Path(self.root, "agent")),
            )
            files = {
                "_headgate_editable.py": finder,
                "_headgate_editable.pth": "import _headgate_editable\n",
            }
            added = "force_include_editable"
        else:
            front_door = Path(self.root, FRONT_DOOR).read_text(encoding="utf-8")
            files = {"headgate/__init__.py": front_door, "headgate/py.typed": ""}
            added = "force_include"
        for name, text in files.items():
            source = scratch / Path(name).name
            source.write_text(text, encoding="utf-8")
            build_data[added][str(source)] = name
        if COMPILE:
            for built in compile_hot(scratch / "lib"):
                name = built.relative_to(scratch / "lib")
                if version == "editable":  # beside its source, where the .pth looks
                    shutil.copy(built, Path(self.root, HOT[0]).parents[3] / name)
                else:
                    build_data["force_include"][str(built)] = str(name)
            build_data.update(pure_python=False, infer_tag=True)

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Run when the wheel is written."""
        shutil.rmtree(self._scratch)


def compile_hot(out: Path) -> list[Path]:
    """Compile `HOT` into `out` and return the extension modules."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    os.environ["MYPYPATH"] = "agent:coordinator"
    options = [
        "--explicit-package-bases",
        "--ignore-missing-imports",
        "--follow-imports=silent",
    ]
    extensions = mypycify([*options, *HOT], opt_level="3")
    command: Any = Distribution({"ext_modules": extensions}).get_command_obj(
        "build_ext"
    )
    command.build_lib, command.build_temp = str(out), str(out.with_name("tmp"))
    command.ensure_finalized()
    command.run()
    return sorted(out.rglob("*.so"))
