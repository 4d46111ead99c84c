"""Ports for servers of tests: each is given once, whoever asks."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tools import ports
from tools.ports import FIRST, LAST, free_port

ROOT = Path(__file__).resolve().parents[3]

ASK = "from tools.ports import free_port\nprint(*(free_port() for _ in range(50)))"


def test_processes_that_ask_at_once_are_given_different_ports() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    given = " ".join(process.communicate()[0] for process in processes).split()
    assert len(set(given)) == len(given) == 200


def test_a_port_that_is_listened_on_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "LAST_GIVEN", tmp_path / "last")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        before = taken.getsockname()[1] - 1
        (tmp_path / "last").write_text(str(before), encoding="ascii")
        assert free_port() != before + 1


@pytest.mark.parametrize("text", ["", "abc", "-7", "5", "99999", "20000.5"])
def test_a_file_that_holds_no_port_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(ports, "LAST_GIVEN", tmp_path / "last")
    (tmp_path / "last").write_text(text, encoding="ascii")
    port = free_port()
    assert FIRST <= port <= LAST
    assert (tmp_path / "last").read_text(encoding="ascii") == str(port)
