"""The scenario files that are part of the package."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "scenarios"
"""Inside the package, so that an installed copy has them too."""


def scenario_files() -> list[Path]:
    """Return the files of the library, by name."""
    return sorted(FOLDER.glob("*.toml"))


def summary(path: Path) -> str:
    """Return what a file of the library demonstrates: the comment in its first line."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip()


def find_scenario(file: str) -> Path:
    """Return the path of a file, or of the library's scenario of that name."""
    path = Path(file)
    if path.exists() or path.suffix or len(path.parts) > 1:
        return path
    named = FOLDER / f"{file}.toml"
    return named if named.exists() else path


def listing() -> str:
    """Return a line per scenario of the library: name and what it demonstrates."""
    files = scenario_files()
    width = max((len(path.stem) for path in files), default=0)
    return "".join(f"{path.stem:<{width}}  {summary(path)}\n" for path in files)
