"""Generate the Python code of proto/ with one pinned compiler, or compare with it.

``python tools/generate_proto.py`` writes ``*_pb2.py`` and ``*_pb2.pyi`` next to
each ``.proto``; ``--check`` writes nothing and exits 1 when they differ from what
is committed.

It is pinned because generated code refuses a protobuf older than the compiler it came
from.  Version 1.81.1 of grpcio-tools contains protoc 33.5, whose code runs on every
protobuf of the range that pyproject.toml declares (>= 7.34, < 8).  That version
itself requires protobuf < 7, so it can't be in the development extra: it is
installed without its dependencies (the compiler needs none) in a folder of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILER = "grpcio-tools==1.81.1"
ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOT = ROOT / "proto"
CACHE = ROOT / ".headgate" / COMPILER.replace("==", "-")
INSTALL_TIMEOUT_S = 300
"""Generous for a download of 3 MB: a hung package index should fail the build."""


def compiler_folder() -> Path:
    """Return a folder that holds the pinned compiler, installing it once."""
    if not (CACHE / "grpc_tools").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet"]
        command += ["--no-deps", "--target", str(CACHE), COMPILER]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
    return CACHE


def generate(target: Path) -> list[Path]:
    """Generate the code of all ``.proto`` files below `target`; return the files."""
    sources = sorted(SOURCE_ROOT.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE_ROOT}"]
    command += [f"--python_out={target}", f"--pyi_out={target}"]
    command += [str(source) for source in sources]
    # PYTHONPATH, so that the pinned compiler wins over one that is installed.
    environment = os.environ | {"PYTHONPATH": str(compiler_folder())}
    subprocess.run(command, check=True, env=environment)
    return sorted(target.rglob("*_pb2.py*"))


def stale() -> list[Path]:
    """Return the committed files that differ from what the compiler generates."""
    with tempfile.TemporaryDirectory(prefix="headgate-proto-") as scratch:
        fresh = generate(Path(scratch))
        pairs = [(f, SOURCE_ROOT / f.relative_to(scratch)) for f in fresh]
        return [
            committed
            for made, committed in pairs
            if not committed.exists() or committed.read_bytes() != made.read_bytes()
        ]


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="only compare, write nothing"
    )
    if parser.parse_args().check:
        differing = stale()
        for path in differing:
            print(f"stale: {path.relative_to(ROOT)} (run tools/generate_proto.py)")
        return 1 if differing else 0
    for path in generate(SOURCE_ROOT):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
