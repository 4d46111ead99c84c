"""The base install brings what an agent needs; the command line is an extra."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

EXTRAS = (
    "typer",
    "rich",
    "pydantic",
    "fastapi",
    "httpx",
    "yaml",
    "sqlalchemy",
    "pandas",
)
"""What belongs to the server, the command line or the pipeline."""

AGENT = """
import json, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import headgate, headgate.asgi, headgate.wsgi
agent = headgate.connect("http://127.0.0.1:1", keep_snapshot=False)
admitted = bool(agent.limiter(tenant="acme").try_acquire(requests=1))
agent.close()
print(json.dumps(admitted))
"""


def test_an_agent_works_without_anything_of_the_server_or_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGENT, *EXTRAS],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) is True


def test_the_base_install_is_what_an_agent_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {one.partition(">")[0] for one in project["dependencies"]}
    assert names == {"numpy", "protobuf", "pyzmq"}
    for extra in ("server", "spark"):
        assert "headgate[cli]" in project["optional-dependencies"][extra]


def test_without_the_extra_the_command_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None\n"
    program += "from headgate.cli import main; sys.exit(main(['group', 'list']))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    told = "headgate: the command needs typer: pip install 'headgate[cli]'"
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["run"], ["report"]])
def test_without_the_spark_extra_the_pipeline_says_what_to_install(
    arguments: list[str],
) -> None:
    program = "import sys; sys.modules['py4j'] = sys.modules['pyspark'] = None\n"
    program += (
        f"from headgate.cli import main; sys.exit(main(['pipeline', *{arguments}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "headgate: `headgate pipeline` needs py4j: "
        "pip install 'headgate[spark,kafka,plot]'\n"
    )


def test_without_the_kafka_extra_up_does_not_start_on_a_kafka_bus(
    tmp_path: Path,
) -> None:
    program = "import sys; sys.modules['kafka'] = None\n"
    program += "from headgate.cli import main; sys.exit(main(sys.argv[1:]))"
    bus, database = "kafka://127.0.0.1:1/usage", tmp_path / "headgate.db"
    options = ["--port", "0", "--bus", bus, "--database", str(database)]
    done = subprocess.run(
        [sys.executable, "-c", program, "up", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "headgate: --bus: kafka: kafka is missing: pip install 'headgate[kafka]'\n"
    )
    assert not database.exists()
