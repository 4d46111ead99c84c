"""Four real LiteLLM proxies under one limit: Headgate, and LiteLLM's own with Redis.

`make peers` makes a virtual environment of its own: the proxy pins other versions than
the tests.  The models are mock, offline: one model with deployments whose answers cost
a half to twice as much as the mean, so nobody knows a call's cost before it is over.
The load is a multiple of the limit; what is counted is the usage in the answers'
bodies, as the callers see it.
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
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import httpx
from tools.ports import free_port

from headgate.api import ServerSettings, running
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PROXIES = 4
LIMIT_PER_MIN = 60_000.0
COSTS = (0.5, 0.75, 1.25, 1.5)
"""What the answers of the deployments cost, as multiples of the mean."""

START_S = 600.0
"""Time for a proxy to start; importing LiteLLM takes long on a busy machine."""

ROOT = Path(__file__).parents[1]
SOURCES = ("agent", "coordinator", "proto")
NEEDS = [
    "limits>=5,<6",
    "litellm[proxy]>=1.100,<2",
    "numpy>=2,<3",
    "protobuf>=7.34,<8",
    "pyzmq>=27,<28",
    "throttled-py[redis]>=3,<4",
]

CONFIG = """
model_list: {models}
litellm_settings:
  callbacks: {callbacks}
{cache}
general_settings:
  custom_auth: who.is_acme
"""

CACHE = """
  cache: true
  cache_params:
    type: redis
    host: 127.0.0.1
    port: {port}
    supported_call_types: []
"""

WHO = """
from litellm.proxy._types import UserAPIKeyAuth

async def is_acme(request, api_key):
    return UserAPIKeyAuth(api_key="sk-acme", team_id="acme", tpm_limit={own})
"""

RULES = """
import os, sys
sys.path[:0] = {sources!r}
import headgate.agent
from headgate.agent.integrations.llm.litellm import LiteLLMLimiter
limiter = LiteLLMLimiter(headgate.agent.connect(os.environ["HEADGATE_URL"]))
"""
"""A module of its own, because LiteLLM loads one again for each line that names it."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the callers do.

    Attributes:
        seconds: How long calls are sent.
        overload: Tokens a second, as a multiple of the limit.
        tokens: What a call costs on average.
        burst_s: Burst of the limit, in seconds of its rate.
    """

    seconds: float
    overload: float
    tokens: int
    burst_s: float


def main() -> None:
    """Run one or both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".headgate" / "peers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--overload", type=float, default=2.0)
    parser.add_argument("--tokens", type=int, default=300, help="mean tokens per call")
    parser.add_argument("--burst-s", type=float, default=6.0, help="burst, in seconds")
    parser.add_argument("--only", choices=["headgate", "litellm"])
    chosen = parser.parse_args()
    python = environment(chosen.venv)
    load = Load(chosen.seconds, chosen.overload, chosen.tokens, chosen.burst_s)
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {PROXIES} proxies, limit "
        f"{LIMIT_PER_MIN:,.0f} tokens/min, burst {load.burst_s:g} s, "
        f"{load.seconds:g} s of {load.overload:g} times the limit, "
        f"{load.tokens} tokens a call, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    for limited_by in ("headgate", "litellm"):
        if chosen.only in (None, limited_by):
            print(_run(limited_by, python, load), flush=True)


def _models(tokens: int) -> str:
    """Return the deployments of one model, as YAML reads JSON."""
    deployments: list[object] = []
    for part in COSTS:
        prompt, answer = 100, round(part * tokens) - 100
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        }
        message = {"role": "assistant", "content": "Water finds its own level."}
        response = {"choices": [{"message": message}], "usage": usage}
        parameters = {
            "model": f"openai/canal-{answer}",
            "api_key": "none",
            "mock_response": response,
        }
        deployments.append({"model_name": "canal", "litellm_params": parameters})
    return json.dumps(deployments)


def environment(home: Path) -> Path:
    """Create a virtual environment with the peers; return its Python."""
    python = home / "bin" / "python"
    if not python.exists():
        print(
            f"installing LiteLLM's proxy and other peers into {home}", file=sys.stderr
        )
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    done = home / f".installed-{len(NEEDS)}"
    if not done.exists():
        pip = [str(python), "-m", "pip", "install", "--quiet", *NEEDS]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def _run(limited_by: str, python: Path, load: Load) -> str:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children = stack.enter_context(Children())
        cache = ""
        if limited_by == "headgate":
            settings = ServerSettings(
                port=0, bus_ports=(0, 0), database=str(home / "headgate.db")
            )
            api = stack.enter_context(running(settings)).api
            _configure(api, load.burst_s)
            os.environ["HEADGATE_URL"] = api
        else:
            cache = CACHE.format(port=_redis(children, home))
        callbacks = "rules.limiter" if limited_by == "headgate" else "[]"
        models = _models(load.tokens)
        config = CONFIG.format(models=models, callbacks=callbacks, cache=cache)
        (home / "config.yaml").write_text(config)
        sources = [str(ROOT / source) for source in SOURCES]
        own = int(LIMIT_PER_MIN) if limited_by == "litellm" else None
        (home / "who.py").write_text(WHO.format(own=own))
        (home / "rules.py").write_text(RULES.format(sources=sources))
        os.environ.update(
            LITELLM_MASTER_KEY=f"sk-{secrets.token_hex(32)}",
            LITELLM_LOCAL_MODEL_COST_MAP="True",
            LITELLM_LOG="ERROR",
            HOME=str(home),
        )
        urls: list[str] = []
        for number in range(PROXIES):
            port = free_port()
            command = [str(python.parent / "litellm"), "--config"]
            command += [str(home / "config.yaml"), "--port", str(port)]
            command += ["--host", "127.0.0.1", "--telemetry", "False"]
            log = home / f"proxy{number}.log"
            children.start(f"proxy {number}", command, log=log, talks=False)
            urls.append(f"http://127.0.0.1:{port}")
        result = asyncio.run(_load(urls, load, home))
        children.check()
        return f"{limited_by}: {result}"


def _configure(api: str, burst_s: float) -> None:
    """Give team acme its tokens across all proxies."""
    limit = {
        "dimension": "tokens",
        "rate": LIMIT_PER_MIN,
        "period_s": 60.0,
        "burst": LIMIT_PER_MIN * burst_s / 60.0,
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
    port = free_port()
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    children.start("redis", command, log=home / "redis.log", talks=False)
    return port


async def _load(urls: list[str], load: Load, home: Path) -> str:
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
                    said = (home / f"proxy{number}.log").read_text()[-2_000:]
                    sys.exit(f"proxy {number} did not start in {START_S:g} s: {said}")
                await asyncio.sleep(0.5)
        return await _measure(http, urls, load)


async def _measure(http: httpx.AsyncClient, urls: list[str], load: Load) -> str:
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

    rate = LIMIT_PER_MIN / 60.0
    per_s = load.overload * rate / load.tokens
    for due_s, url in _arrivals(urls, load.seconds, per_s):
        pause_s = began + due_s - time.monotonic()
        if pause_s > 0.0:
            await asyncio.sleep(pause_s)
        task = asyncio.create_task(ask(url, 400))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    took_s = time.monotonic() - began
    total = sum(tokens for _, tokens in settled)
    allowed = rate * (took_s + load.burst_s)
    most = allowed + PROXIES * max(COSTS) * load.tokens
    # Only while calls were sent: afterwards nobody overloads the limit.
    soon = sum(tokens for at_s, tokens in settled if at_s <= load.seconds)
    worst = max(_windows(settled, 10.0), default=0.0)
    return json.dumps(
        {
            "settled": round(total),
            "seconds": round(took_s, 1),
            "limit_x_window_and_burst": round(allowed),
            "with_a_call_per_proxy": round(most),
            "used": round(soon / (rate * (load.seconds + load.burst_s)), 3),
            "worst_10_s_of_limit": round(worst / (rate * 10.0), 2),
            "statuses": statuses,
        }
    )


def _arrivals(
    urls: list[str], seconds: float, per_s: float
) -> Iterator[tuple[float, str]]:
    """Yield Poisson arrivals, half of them at a single proxy."""
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
