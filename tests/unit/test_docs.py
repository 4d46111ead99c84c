"""The documentation holds together: links, numbers of decisions, the index."""

import ast
import re
from pathlib import Path

import pytest

import headgate.agent

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NUMBERED = re.compile(r"(\d{4})-[a-z0-9-]+\.md")


def sources(*suffixes: str) -> list[Path]:
    """The files of the project; folders with a dot hold what tools make."""
    folders = [p for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".")]
    files = [*ROOT.iterdir(), *(p for folder in folders for p in folder.rglob("*"))]
    return sorted(p for p in files if p.suffix in suffixes and p.is_file())


@pytest.mark.parametrize("page", sources(".md"), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    relative = [link for link in links if "://" not in link and "mailto:" not in link]
    missing = [link for link in relative if not (page.parent / link).exists()]
    assert not missing


def test_every_decision_that_the_code_names_exists() -> None:
    named = {
        found
        for source in sources(".py", ".js", ".toml", ".sh")
        for found in re.findall(
            r"docs/decisions/[\w-]+\.md", source.read_text(encoding="utf-8")
        )
    }
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


def numbered() -> list[Path]:
    return sorted(page for page in DECISIONS.iterdir() if NUMBERED.match(page.name))


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in numbered()]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", numbered(), ids=lambda p: p.stem)
def test_a_decision_has_its_number_a_title_and_a_status(page: Path) -> None:
    title, blank, status, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith(f"# {int(page.name[:4])}. ")
    assert blank == ""
    superseded = r"superseded by \[\d+\]\((\d{4}-[\w-]+\.md)\)"
    assert re.fullmatch(rf"Status: (accepted|{superseded})", status), status


def test_the_index_lists_every_decision_with_its_title_and_status() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8").splitlines()
    for page in numbered():
        title, _, status, *_ = page.read_text(encoding="utf-8").splitlines()
        number, text = title.removeprefix("# ").split(". ", 1)
        state = status.removeprefix("Status: ")
        assert f"| {number} | [{text}]({page.name}) | {state} |" in index


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_module_that_newcomers_are_sent_to_exists(name: str) -> None:
    paths = re.findall(r"`([\w/]+\.py)`", (ROOT / name).read_text(encoding="utf-8"))
    known = [f"/{path.relative_to(ROOT)}" for path in sources(".py")]
    assert paths
    assert not [p for p in paths if not any(k.endswith(f"/{p}") for k in known)]


USERS_READ = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "reference").glob("*.md"),
    *(
        path
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    ),
]

COMMANDS = {f"headgate.simulation.{name}" for name in ("accuracy", "regimes", "soak")}
"""Programs that are started with `python -m`."""


@pytest.mark.parametrize("page", USERS_READ, ids=lambda p: str(p.relative_to(ROOT)))
def test_users_are_sent_to_no_module_that_may_move(page: Path) -> None:
    if page.is_dir():
        return
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\bheadgate\.[a-z_]+\.[a-z_]+", text)) - COMMANDS
    deep = {name: name.replace(".", "/") for name in named}
    assert not [
        name
        for name, path in deep.items()
        if [*ROOT.glob(f"*/{path}.py"), *ROOT.glob(f"*/{path}/__init__.py")]
    ]


def bound(tree: ast.Module) -> set[str]:
    """Return the names that a block imports."""
    imports = (ast.Import, ast.ImportFrom)
    found = (node for node in ast.walk(tree) if isinstance(node, imports))
    return {
        (alias.asname or alias.name).split(".")[0]
        for node in found
        for alias in node.names
    }


def ours() -> set[str]:
    """Return the names at our short addresses: classes and functions to import."""
    addresses = (ROOT / "agent" / "headgate").glob("*.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in addresses]
    names = {name for tree in trees for name in bound(tree)} - {"annotations"}
    classes = {name for name in dir(headgate.agent) if name[0].isupper()}
    return {"headgate"} | names | classes


@pytest.mark.parametrize(
    "page",
    [page for page in USERS_READ if "```python" in page.read_text(errors="replace")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_block_of_code_imports_what_it_uses_of_ours(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        tree = ast.parse(block)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert (used & ours()) - bound(tree) == set(), block
