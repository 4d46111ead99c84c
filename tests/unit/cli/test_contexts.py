"""Contexts: servers by name, in a file that only its owner can read."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.rigs import serving

from headgate.cli import main
from headgate.cli.failure import Misused
from headgate.cli.options.common import DEFAULT_URL, Api

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without contexts; returns the file that will hold them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("HEADGATE_URL", "HEADGATE_TOKEN", "HEADGATE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "headgate" / "contexts.json"


def test_a_context_is_set_used_shown_and_deleted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving((200, '{"items": [{"name": "acme"}]}')) as url:
        assert main(["context", "set", "staging", "--url", url, "--token", "t0p"]) == 0
        assert main(["context", "current"]) == 1
        assert main(["context", "use", "staging"]) == 0
        assert main(["tenant", "list", "-o", "name"]) == 0
        assert main(["tenant", "list", "-o", "name", "--context", "staging"]) == 0
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert main(["context", "list"]) == 0
    assert main(["context", "list", "-o", "yaml"]) == 0
    said = capsys.readouterr().out
    assert said.count("acme\n") == 2
    assert "t0p" not in said
    assert Api().resolved() == Api(url, "t0p")
    assert main(["context", "delete", "staging"]) == 0
    assert Api().resolved().url == DEFAULT_URL
    assert main(["context", "use", "staging"]) == 1
    told = "headgate: context 'staging' does not exist; there are: none\n"
    assert capsys.readouterr().err.endswith(told)


def test_a_change_of_a_context_keeps_the_rest() -> None:
    main(["context", "set", "a", "--url", "http://a", "--token", "one", "--use"])
    main(["context", "set", "a", "--url", "http://b"])
    assert Api().resolved() == Api("http://b", "one")
    main(["context", "set", "a", "--token", ""])
    assert Api().resolved() == Api("http://b")
    assert main(["context", "set", "new", "--token", "x"]) == 2


def test_a_token_never_goes_to_another_address_than_its_contexts() -> None:
    main(["context", "set", "a", "--url", "http://a", "--token", "one", "--use"])
    assert Api(url="http://evil").resolved() == Api(url="http://evil")
    with pytest.raises(Misused):
        Api(url="http://evil", context="a").resolved()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"contexts": 5}', '{"contexts": {"a": {"uri": "x"}}}']
)
def test_a_broken_file_is_told_in_one_line(
    home: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home.parent.mkdir()
    home.write_text(content)
    assert main(["context", "list"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"headgate: {home}: expected")
    assert said.endswith("; correct this file, or delete it to begin anew\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("url", ["", "foo", "ftp://a", "http://", "http://a:port"])
def test_a_url_that_no_command_could_use_is_not_kept(
    home: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["context", "set", "good", "--url", "http://a"])
    before = home.read_text()
    assert main(["context", "set", "bad", "--url", url]) == 1
    assert main(["context", "set", "good", "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"headgate: {url!r}: ")
    assert said.count("\n") == 2
    assert home.read_text() == before


def test_the_file_is_replaced_whole(home: Path) -> None:
    main(["context", "set", "a", "--url", "http://a", "--use"])
    home.chmod(0o644)
    main(["context", "set", "b", "--url", "http://b"])
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    whole = json.loads(home.read_text())
    assert (whole["current"], sorted(whole["contexts"])) == ("a", ["a", "b"])
    assert [one.name for one in home.parent.iterdir()] == ["contexts.json"]
