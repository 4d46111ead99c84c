"""Build the wheel with its hot modules compiled, and run the limiter's tests on it.

The tests are those of the pure build, because both must behave alike.  The compiled
wheel is unpacked into its own environment, which borrows all other packages from the
running one, so that the modules of the checkout are not found.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/unit/agent/bucket",
    "tests/unit/agent/limiter",
    "tests/unit/agent/enforcement",
    "tests/integration/limiter",
)


def main(scratch: Path) -> int:
    """Build, unpack, test; return pytest's exit code."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    compiled = {**os.environ, "HEADGATE_COMPILE": "mypyc"}
    subprocess.run([*build, "-w", str(scratch), str(ROOT)], env=compiled, check=True)
    (wheel,) = scratch.glob("headgate-*.whl")
    home = scratch / "venv"
    venv.create(home, symlinks=True)
    scheme = {"base": str(home), "platbase": str(home)}
    site = Path(sysconfig.get_path("purelib", "venv", scheme))
    zipfile.ZipFile(wheel).extractall(site)
    # A path named in a .pth is searched, but .pth files in it are not read, so the
    # finder of an editable install is not loaded.
    borrowed = [path for path in sys.path if Path(path).name == "site-packages"]
    (site / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    python = Path(sysconfig.get_path("scripts", "venv", scheme), "python")
    told = "import headgate.agent.limiter.handle as handle; print(handle.__file__)"
    found = subprocess.check_output([python, "-c", told], cwd=scratch, text=True)
    if found.strip().endswith(".py"):
        sys.exit(f"expected a compiled module, got {found}")
    pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options = [*sys.argv[1:], *TESTS]
    return subprocess.run([*pytest, *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="headgate-compiled-") as folder:
        sys.exit(main(Path(folder)))
