"""A body of bulk apply that could kill the process, on a process of its own."""

from pathlib import Path

import httpx
import psutil
import pytest
from tests.api.conftest import TIMEOUT_S, process

YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}

MOST_MEMORY = 300 * 1024 * 1024
"""Bytes of the whole process, at its peak."""


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_nothing_nested_knocks_the_server_over(tmp_path: Path, dry_run: str) -> None:
    with process(tmp_path) as (_, addresses):
        url = f"{addresses['api']}/api/v1/apply"
        for raw in (b"- " * 30_000 + b"a", b"[" * 20_000, b"{a: " * 20_000):
            for headers in (YAML, JSON):
                answer = httpx.post(
                    url,
                    content=raw,
                    params={"dry_run": dry_run},
                    headers=headers,
                    timeout=TIMEOUT_S,
                )
                assert answer.status_code == 400, answer.text
        assert httpx.get(f"{addresses['api']}/healthz").is_success


def test_a_body_of_empty_lists_is_refused_before_it_fills_the_memory(
    tmp_path: Path,
) -> None:
    with process(tmp_path) as (server, addresses):
        url = f"{addresses['api']}/api/v1/apply"
        for size, headers in ((60, JSON), (30, JSON), (8, YAML)):
            raw = b"[" + b"[]," * (size * 1024 * 1024 // 3 - 2) + b"[]]"
            answer = httpx.post(url, content=raw, headers=headers, timeout=TIMEOUT_S)
            assert answer.status_code == 413, answer.text
            assert answer.json()["detail"].startswith("expected at most")
        peak = psutil.Process(server.pid).memory_info().rss
        for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        assert peak <= MOST_MEMORY, peak
