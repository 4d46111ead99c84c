"""`headgate top` and `explain` before a real API; top in a real terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, cast

import pytest
from tests.e2e.cli.screen_reader import ScreenReader
from tools.ports import free_port

from headgate.agent import connect
from headgate.cli import main
from headgate.cli.client.rest import Rest
from headgate.cli.process.children import Child, Children

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_S = 60.0
WIDE = (160, 16)
TOP = [sys.executable, "-m", "headgate.cli", "top", "--every", "0.2"]


class Api:
    """An API process with thirty groups; it may be killed and started again."""

    def __init__(self, children: Children, home: Path) -> None:
        self._children = children
        self._home = home
        self._port = str(free_port())
        self._child: Child | None = None
        self.url = ""
        self.start()
        limits = [{"dimension": "requests", "rate": 20.0}]
        groups = {f"group-{n:02}": {"limits": limits} for n in range(30)}
        body: dict[str, object] = {
            "groups": groups,
            "tenants": {"acme": {}},
            "attachments": [{"subject": {"tenant": "acme"}, "group": "group-07"}],
        }
        with Rest(self.url) as rest:
            rest.call("POST", "/api/v1/apply", body=body)

    def start(self) -> None:
        ready = self._home / "ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headgate.cli", "up", "--port", self._port]
        command += ["--database", str(self._home / "headgate.db"), "--bus-ports", "0,0"]
        command += ["--ready-file", str(ready)]
        log = self._home / "api.log"
        self._child = self._children.start("api", command, log=log, talks=False)
        self.url = json.loads(self._child.file(ready, START_S))["api"]

    def kill(self) -> None:
        assert self._child is not None
        self._children.forget(self._child)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Children() as children:
        yield Api(children, tmp_path_factory.mktemp("top"))


@pytest.fixture
def top(api: Api) -> Iterator[ScreenReader]:
    env = {"HEADGATE_URL": api.url}
    with ScreenReader(TOP, env=env, size=WIDE) as screen:
        screen.until(lambda shown: "group-00" in shown)
        yield screen


@pytest.fixture
def busy(api: Api) -> Iterator[None]:
    """An agent whose callers attempt much more than group-07 allows."""
    ended = threading.Event()

    def attempt() -> None:
        with connect(api.url, agent="eager", keep_snapshot=False) as agent:
            limiter = agent.limiter(tenant="acme")
            while not ended.wait(0.005):
                limiter.try_acquire(requests=1)

    thread = threading.Thread(target=attempt)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.usefixtures("busy")
def test_who_is_over_comes_first_and_enter_tells_who_it_is(top: ScreenReader) -> None:
    top.until(lambda shown: any(_is_over(line) for line in shown.split("\n")))
    top.type("\r")
    shown = top.until(lambda shown: "eager" in shown)
    assert "group group-07: agents that use it" in shown
    top.type("\x1b")
    top.until(lambda shown: "group-00" in shown)
    top.type("a")
    top.until(lambda shown: "1 agent; the bus is open" in shown and "eager" in shown)


def _is_over(line: str) -> bool:
    return line.startswith("> group-07") and "[||||||" in line and line.endswith("over")


def test_rows_are_reached_by_keys_in_any_size(top: ScreenReader) -> None:
    top.type("\x1b[F")  # end
    assert "group-00" not in top.until(lambda shown: "> group-29" in shown)
    top.resize(60, 40)
    shown = top.until(lambda shown: "group-00" in shown and "> group-29" in shown)
    assert max(len(line) for line in shown.split("\n")) <= 60
    top.resize(120, 9)
    top.until(lambda shown: "group-00" not in shown and "> group-29" in shown)
    top.type("\x1b[H/07")
    top.until(lambda shown: "search: 07_" in shown and "group-29" not in shown)
    top.type("\x1b")
    top.type("sss")
    top.until(lambda shown: "s sort: name" in shown and "1 of 30" in shown)


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 130), ("SIGTERM", 130)])
def test_it_leaves_the_terminal_as_it_was(
    top: ScreenReader, end: str, code: int
) -> None:
    if end == "SIGTERM":
        top.child.send_signal(signal.SIGTERM)
    else:
        top.type(end)
    assert top.ended() == code
    assert top.is_as_before()
    assert top.bytes.count(b"\x1b[?1049l") == 1  # the screen of its own is left
    assert top.bytes.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))


@pytest.mark.parametrize("end", ["\x03", "SIGTERM", "SIGHUP"])
def test_a_status_that_is_ended_gives_the_cursor_back(api: Api, end: str) -> None:
    command = [sys.executable, "-m", "headgate.cli", "status", "--every", "0.2"]
    env = {"HEADGATE_URL": api.url}
    with ScreenReader(command, env=env, size=WIDE) as screen:
        screen.until(lambda shown: "in use" in shown or "group-" in shown)
        if end.startswith("SIG"):
            screen.child.send_signal(signal.Signals[end])
        else:
            screen.type(end)
        assert screen.ended() == 130
        assert screen.bytes.count(b"\x1b[?25l") == screen.bytes.count(b"\x1b[?25h") == 1


def test_it_outlives_the_api_and_says_how_old_its_figures_are(
    api: Api, top: ScreenReader
) -> None:
    api.kill()
    top.until(lambda shown: "figures are " in shown and "retrying" in shown)
    top.type("\r")  # keys go on meanwhile
    top.until(lambda shown: "loading ..." in shown)
    top.type("\x1b")
    api.start()
    top.until(lambda shown: "group-00" in shown and "loading" not in shown)
    top.type("q")
    assert top.ended() == 0


@pytest.mark.usefixtures("busy")
def test_a_share_is_explained_with_its_inputs(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*arguments: str) -> tuple[int, str, str]:
        code = main(["explain", *arguments, "--url", api.url])
        told = capsys.readouterr()
        return code, told.out, told.err

    assert explain("group-01") == (0, "group-01 is not in use\n", "")
    deadline = time.monotonic() + START_S
    while "eager" not in (said := explain("group-07")[1]):
        assert time.monotonic() < deadline, said
    for part in ("E  = min(L − P, B) = ", "Q' = max(0, Q + (E − m)/H − r)", "θ"):
        assert part in said
    said = explain("group-07", "--agent", "eager")[1]
    assert "eager: share = min(λ, w·θ) = min(" in said
    told = json.loads(explain("group-07", "--json")[1])
    assert [agent["agent"] for agent in told[0]["agents"]] == ["eager"]
    for wrong in (("--agent", "two"), ("--dimension", "tokens")):
        code, _, error = explain("group-07", *wrong)
        assert (code, error.count("\n")) == (1, 1)


@pytest.fixture
def refused(api: Api) -> Iterator[None]:
    """Two agents whose callers ask often for what an hour and a month allow."""
    hourly = {"dimension": "requests", "rate": 60.0, "burst": 5.0, "period_s": 3600.0}
    monthly = {"dimension": "requests", "rate": 50.0, "period": "month"}
    names = {"hourly": hourly, "monthly": monthly}
    body: dict[str, object] = {
        "groups": {name: {"limits": [limit]} for name, limit in names.items()},
        "tenants": {name: {} for name in names},
        "attachments": [{"subject": {"tenant": n}, "group": n} for n in names],
    }
    with Rest(api.url) as rest:
        rest.call("POST", "/api/v1/apply", body=body)
    ended = threading.Event()

    def attempt(agent_id: str) -> None:
        with connect(api.url, agent=agent_id, keep_snapshot=False) as agent:
            limiters = [agent.limiter(tenant=name) for name in names]
            while not ended.wait(0.02):
                for limiter in limiters:
                    limiter.try_acquire(requests=1)

    threads = [threading.Thread(target=attempt, args=(n,)) for n in ("one", "two")]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("refused")
def test_all_that_an_hour_or_a_month_refuses_is_shown(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(group: str) -> str:
        main(["explain", group, "--url", api.url])
        return capsys.readouterr().out

    deadline = time.monotonic() + START_S
    shown: dict[str, float] = {"refused": 0.0}
    with Rest(api.url) as rest:
        while shown["refused"] < 20.0:  # most of some 90, even on a busy machine
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
            uses = rest.call("GET", "/api/v1/groups/hourly/use")["uses"]
            shown = (cast("list[dict[str, float]]", uses) or [shown])[0]
    assert "more than the 0.017/s that the limit allows." in explain("hourly")
    while "All 50 requests of this month are used" not in (said := explain("monthly")):
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
    assert "The two agents want" in said


def test_into_a_pipe_it_is_one_table(api: Api) -> None:
    command = [*TOP, "--url", api.url, "--search", "group-07"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    )
    lines = [line for line in done.stdout.splitlines() if "group-" in line]
    assert [line.split()[:2] for line in lines] == [["group-07", "requests"]]
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("name", "group-07\n"),
        ("json", '"group": "group-07"'),
        ("yaml", "group: group-07"),
        ("wide", "group-07"),
    ],
)
def test_top_is_printed_in_the_form_that_was_asked_for(
    api: Api, form: str, said: str
) -> None:
    command = [*TOP, "--url", api.url, "--search", "group-07", "-o", form]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    )
    assert said in done.stdout
    assert (done.stdout == said) == (form == "name")


def test_without_an_api_it_does_not_begin() -> None:
    env = {"HEADGATE_URL": "http://127.0.0.1:1"}
    with ScreenReader(TOP, env=env, size=WIDE) as screen:
        assert screen.ended() == 1
        assert b"headgate: no API answers at http://127.0.0.1:1" in screen.bytes
        assert b"\x1b[?1049h" not in screen.bytes
