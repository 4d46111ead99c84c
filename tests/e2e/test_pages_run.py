"""The code of the quick starts and of the migration page runs, against a real server.

Each block is run as it stands on the page, but for the server's address; what follows
it here makes the requests that a reader's own program would make.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from headgate.agent import Admin, LimitSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.api import Addresses

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("quickstarts", "migration")

RUN_S = 120

ASKED = 40
"""Requests of a web client; at 1/s a slow machine answers them in less than 40 s."""

WEB = f"""
asked = [client.get("/", headers={{"x-tenant": "acme"}}) for _ in range({ASKED})]
codes = [one.status_code for one in asked]
assert 429 in codes and codes[0] != 429, codes
"""

FLASK = """
from flask import Flask
app = Flask("page")
"""

LIMITED = f"""
@app.get("/")
@limiter.limit("1 per minute")
def root():
    return "here"
client = app.test_client()
{WEB}
"""

DRIVERS: dict[str, tuple[str, str]] = {
    "with headgate.Admin(": (
        "",
        """
        with headgate.Admin("URL") as admin:
            limits = [limit.dimension for limit in admin.group("gold").limits]
            assert limits == ["requests"], limits
        """,
    ),
    "from fastapi import FastAPI": (
        "",
        "from starlette.testclient import TestClient\n"
        f"client = TestClient(app)\n{WEB}\nagent.close()",
    ),
    "from flask import Flask": (
        "",
        f"client = app.test_client()\n{WEB}\nagent.close()",
    ),
    "import asyncio": (
        "",
        """
        done = []
        def print(*words):
            done.append(words)
        async def drive():
            jobs = asyncio.Queue()
            for number in range(3):
                jobs.put_nowait(number)
            worker = asyncio.create_task(main(jobs))
            while len(done) < 3 and not worker.done():
                await asyncio.sleep(0.05)
            worker.cancel()
            await asyncio.wait([worker])
        asyncio.run(drive())
        assert done == [("doing", 0), ("doing", 1), ("doing", 2)], done
        """,
    ),
    "estimate = headgate.Estimate(": (
        "",
        """
        import json, threading
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from openai import OpenAI
        class Model(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                choice = {"index": 0, "finish_reason": "stop",
                          "message": {"role": "assistant", "content": "yes"}}
                usage = {"prompt_tokens": 100, "completion_tokens": 300,
                         "total_tokens": 400}
                answer = json.dumps({
                    "id": "1", "object": "chat.completion", "created": 1,
                    "model": "gpt-4o-mini", "choices": [choice], "usage": usage,
                }).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            def log_message(self, *words):
                pass
        provider = ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{provider.server_port}/v1"
        client = OpenAI(base_url=base, api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "Is it?"}]
        answered = 0
        try:
            for _ in range(1000):
                answered += ask(client, messages).choices[0].message.content == "yes"
            raise SystemExit("a thousand answers: nothing was limited")
        except headgate.Throttled:
            pass
        assert answered >= 1
        provider.shutdown()
        provider.server_close()
        agent.close()
        """,
    ),
    "import headgate.limits": (
        FLASK
        + "from flask_limiter import Limiter\n"
        + "from flask_limiter.util import get_remote_address\n",
        f"limiter.init_app(app)\n{LIMITED}",
    ),
}
"""What comes before and after a block, by a line of it."""


def blocks(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


BLOCKS = [(page, index) for page in PAGES for index in range(len(blocks(page)))]


@pytest.fixture(scope="module")
def acme(server: Addresses, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a server that was set up as the quick starts say.

    Its limits are lowered then, so that a few requests meet them.
    """
    text = (DOCS / "quickstarts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    install, up, *commands = block.splitlines()
    assert (install, up) == ("pip install 'headgate[server]'", "headgate up &")
    home = str(tmp_path_factory.mktemp("home"))
    for line in commands:
        program, *arguments = shlex.split(line)
        assert program == "headgate"
        subprocess.run(
            [sys.executable, "-m", "headgate.cli", *arguments],
            env={**os.environ, "HEADGATE_URL": server.api, "HOME": home},
            timeout=RUN_S,
            check=True,
        )
    return server.api


@pytest.fixture(autouse=True)
def small(acme: str) -> None:
    """Lower the limits that the page created."""
    limits = [LimitSpec("requests", 1.0, burst=2.0), LimitSpec("tokens", 1000 / 60)]
    with Admin(acme) as admin:
        admin.put_group("gold", limits)


@pytest.mark.parametrize(("page", "index"), BLOCKS)
def test_the_code_on_the_page_runs(
    acme: str, tmp_path: Path, page: str, index: int
) -> None:
    block = blocks(page)[index]
    drivers = [both for line, both in DRIVERS.items() if line in block]
    assert len(drivers) == 1, f"{page}.md has a new block, which needs a driver here"
    before, after = map(dedent, drivers[0])
    program = "\n".join((before, block, after)).replace("URL", acme)
    program = program.replace("http://127.0.0.1:8080", acme)
    program = program.replace(
        "headgate://127.0.0.1:8080", acme.replace("http", "headgate")
    )
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, f"{program}\n{done.stderr}"


def test_the_commands_and_limits_that_the_migration_page_shows_can_be_typed(
    headgate: Callable[..., tuple[int, str, str]],
) -> None:
    text = (DOCS / "migration.md").read_text(encoding="utf-8")
    commands = re.findall(r"`headgate ((?:group|attach) [^`]*)`", text)
    assert len(commands) == 2
    for command in commands:
        code, _, error = headgate(*shlex.split(command))
        assert (command, code, error) == (command, 0, "")
    limits = re.findall(r"`(?:--limit )?(\w+=\d[^`]*)`", text)
    assert len(limits) == 2
    for number, limit in enumerate(limits):
        code, _, error = headgate(
            "group", "create", f"migrated-{number}", "--limit", limit
        )
        assert (limit, code, error) == (limit, 0, "")
