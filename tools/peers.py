"""Four real LiteLLM proxies under one limit: Headgate, and LiteLLM's own with Redis.

`make peers` makes a virtual environment of its own: the proxy pins other versions than
the tests.  The models are mock, offline.  The load is a multiple of the limit; what is
counted is the usage in the answers' bodies, as the callers see it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import httpx

from headgate.api import ServerSettings, running
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PROXIES = 4
LIMIT_PER_MIN = 60_000.0
BURST_S = 6.0
ANSWER = "Water finds its own level. " * 20
START_S = 300.0
ROOT = Path(__file__).parents[1]
SOURCES = ("agent", "coordinator", "proto")
NEEDS = [
    "litellm[proxy]>=1.100,<2",
    "numpy>=2,<3",
    "protobuf>=7.34,<8",
    "pyzmq>=27,<28",
]

CONFIG = """
model_list:
  - model_name: canal
    litellm_params:
      model: openai/canal
      api_key: none
      mock_response: "{answer}"
litellm_settings:
  callbacks: {callbacks}
{cache}
general_settings:
  custom_auth: rules.who
"""

CACHE = """
  cache: true
  cache_params:
    type: redis
    host: 127.0.0.1
    port: {port}
    supported_call_types: []
"""

RULES = """
import os, sys
from litellm.proxy._types import UserAPIKeyAuth

OWN = os.environ["LIMITED_BY"] == "litellm"

async def who(request, api_key):
    tpm = {tpm} if OWN else None
    return UserAPIKeyAuth(api_key="sk-acme", team_id="acme", tpm_limit=tpm)

if not OWN:
    sys.path[:0] = {sources!r}
    import headgate.agent
    from headgate.agent.integrations.llm.litellm import LiteLLMLimiter
    limiter = LiteLLMLimiter(headgate.agent.connect(os.environ["HEADGATE_URL"]))
"""


def main() -> None:
    """Run one or both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".headgate" / "peers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--overload", type=float, default=2.0)
    parser.add_argument("--only", choices=["headgate", "litellm"])
    chosen = parser.parse_args()
    python = _environment(chosen.venv)
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {PROXIES} proxies, limit", end=" ")
    print(f"{LIMIT_PER_MIN:,.0f} tokens/min, {chosen.seconds:g} s of", end=" ")
    print(f"{chosen.overload:g} times the limit, load {os.getloadavg()[0]:.1f}")
    for limited_by in ("headgate", "litellm"):
        if chosen.only in (None, limited_by):
            print(_run(limited_by, python, chosen.seconds, chosen.overload), flush=True)


def _environment(home: Path) -> Path:
    python = home / "bin" / "python"
    if not python.exists():
        print(f"installing LiteLLM's proxy into {home}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    done = home / ".installed"
    if not done.exists():
        pip = [str(python), "-m", "pip", "install", "--quiet", *NEEDS]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def _run(limited_by: str, python: Path, seconds: float, overload: float) -> str:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children = stack.enter_context(Children())
        cache = ""
        if limited_by == "headgate":
            settings = ServerSettings(
                port=0, bus_ports=(0, 0), database=str(home / "headgate.db")
            )
            api = stack.enter_context(running(settings)).api
            _configure(api)
            os.environ["HEADGATE_URL"] = api
        else:
            cache = CACHE.format(port=_redis(children, home))
        callbacks = "rules.limiter" if limited_by == "headgate" else "[]"
        config = CONFIG.format(answer=ANSWER, callbacks=callbacks, cache=cache)
        (home / "config.yaml").write_text(config)
        sources = [str(ROOT / source) for source in SOURCES]
        rules = RULES.format(tpm=int(LIMIT_PER_MIN), sources=sources)
        (home / "rules.py").write_text(rules)
        os.environ.update(
            LIMITED_BY=limited_by,
            LITELLM_MASTER_KEY=f"sk-{secrets.token_hex(32)}",
            LITELLM_LOCAL_MODEL_COST_MAP="True",
            LITELLM_LOG="ERROR",
            HOME=str(home),
        )
        urls: list[str] = []
        for number in range(PROXIES):
            port = _free_port()
            command = [str(python.parent / "litellm"), "--config"]
            command += [str(home / "config.yaml"), "--port", str(port)]
            command += ["--host", "127.0.0.1", "--telemetry", "False"]
            log = home / f"proxy{number}.log"
            children.start(f"proxy {number}", command, log=log, talks=False)
            urls.append(f"http://127.0.0.1:{port}")
        result = asyncio.run(_load(urls, seconds, overload, home))
        children.check()
        return f"{limited_by}: {result}"


def _configure(api: str) -> None:
    """Give team acme its tokens over all proxies."""
    limit = {
        "dimension": "tokens",
        "rate": LIMIT_PER_MIN,
        "period_s": 60.0,
        "burst": LIMIT_PER_MIN * BURST_S / 60.0,
    }
    body: dict[str, object] = {
        "tenants": {"acme": {}},
        "groups": {"acme": {"limits": [limit]}},
        "attachments": [{"subject": {"tenant": "acme"}, "group": "acme"}],
    }
    httpx.post(f"{api}/api/v1/apply", json=body).raise_for_status()


def _redis(children: Children, home: Path) -> int:
    server = shutil.which("redis-server")
    if server is None:
        sys.exit("redis-server is needed for the contrast; or --only headgate")
    port = _free_port()
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    children.start("redis", command, log=home / "redis.log", talks=False)
    return port


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def _load(urls: list[str], seconds: float, overload: float, home: Path) -> str:
    headers = {"authorization": "Bearer sk-acme"}
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(headers=headers, timeout=60.0, limits=limits) as http:
        ends = time.monotonic() + START_S
        for number, url in enumerate(urls):
            while True:
                try:
                    if (await http.get(f"{url}/health/liveliness")).is_success:
                        break
                except httpx.HTTPError:
                    pass
                if time.monotonic() > ends:
                    sys.exit((home / f"proxy{number}.log").read_text()[-2_000:])
                await asyncio.sleep(0.5)
        return await _measure(http, urls, seconds, overload)


async def _measure(
    http: httpx.AsyncClient, urls: list[str], seconds: float, overload: float
) -> str:
    settled: list[tuple[float, float]] = []
    statuses: dict[int, int] = {}
    tasks: set[asyncio.Task[None]] = set()
    began = time.monotonic()

    async def ask(url: str, characters: int) -> None:
        content = "w" * characters
        body = {"model": "canal", "messages": [{"role": "user", "content": content}]}
        answer = await http.post(f"{url}/v1/chat/completions", json=body)
        code = answer.status_code
        statuses[code] = statuses.get(code, 0) + 1
        if code == 200:
            tokens = answer.json()["usage"]["total_tokens"]
            settled.append((time.monotonic() - began, tokens))

    # The first answer tells what a request costs.
    await ask(urls[0], 400)
    cost = settled[0][1] if settled else 30.0
    for due_s, url in _arrivals(urls, seconds, overload * LIMIT_PER_MIN / 60.0 / cost):
        pause_s = began + due_s - time.monotonic()
        if pause_s > 0.0:
            await asyncio.sleep(pause_s)
        task = asyncio.create_task(ask(url, 400))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    took_s = time.monotonic() - began
    total = sum(tokens for _, tokens in settled)
    rate = LIMIT_PER_MIN / 60.0
    most = rate * (took_s + BURST_S) + PROXIES * cost
    worst = max(_windows(settled, 10.0), default=0.0)
    return json.dumps(
        {
            "settled": round(total),
            "seconds": round(took_s, 1),
            "bound": round(most),
            "of_bound": round(total / most, 3),
            "of_limit": round(total / (rate * took_s), 3),
            "worst_10_s_of_limit": round(worst / (rate * 10.0), 2),
            "tokens_a_request": cost,
            "statuses": statuses,
        }
    )


def _arrivals(
    urls: list[str], seconds: float, per_s: float
) -> Iterator[tuple[float, str]]:
    """Yield Poisson arrivals, half of them at one proxy."""
    chance = random.Random(1)
    due_s = 0.0
    while (due_s := due_s + chance.expovariate(per_s)) < seconds:
        yield due_s, urls[0] if chance.random() < 0.5 else chance.choice(urls)


def _windows(settled: list[tuple[float, float]], width_s: float) -> Iterator[float]:
    """Yield the tokens settled in each window that begins at a settlement."""
    for first, (began_s, _) in enumerate(settled):
        inside = settled[first:]
        yield sum(tokens for at_s, tokens in inside if at_s - began_s < width_s)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """End as a shell reports it: 128 and the signal's number."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    main()
