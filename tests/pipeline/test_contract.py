"""What the documents and the set-up promise."""

from __future__ import annotations

import io
import locale
import re
import socket
import stat
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Row
from rich.console import Console
from typer.testing import CliRunner

from headgate.pipeline.command import app, seconds
from headgate.pipeline.report.html_report import (
    drawn,
    headline,
    print_effect,
    print_summary,
    write_page,
)
from headgate.pipeline.report.labels import COLUMNS, FURTHER, TITLES
from headgate.pipeline.report.summary import Curve, UsageSummary
from headgate.pipeline.settings import PipelineSettings, WrongSettings
from headgate.pipeline.stream import jars
from headgate.pipeline.stream.metrics import PipelineMetrics
from headgate.pipeline.tables.schema import TABLES

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_names_every_column_of_every_table() -> None:
    text = (ROOT / "docs/reference/pipeline-tables.md").read_text()
    documented: dict[str, list[str]] = {}
    for section in text.split("\n## ")[1:]:
        head, body = section.split("\n", 1)
        columns = [
            name
            for row in re.findall(r"^\| (`.*?) \|", body, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", row)
        ]
        documented |= dict.fromkeys(head.split(", "), columns)
    assert documented == {name: schema.names for name, schema in TABLES.items()}


def fake_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_an_old_java_is_refused_with_what_to_do(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(jars.SetUpMissing, match=r"17 or newer.*Install one"):
        jars.require_java()


def test_a_missing_java_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["setup"])
    assert result.exit_code == 1
    assert "Install one" in result.output
    assert "Traceback" not in result.output


def test_jars_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in jars.CONNECTORS:
        (tmp_path / name).touch()
    monkeypatch.setenv("HEADGATE_JARS", str(tmp_path))
    monkeypatch.setenv("PATH", "")  # no Maven: offline
    assert jars.connector_jars() == [tmp_path / name for name in jars.CONNECTORS]


def test_missing_jars_without_maven_say_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(jars.SetUpMissing, match="kafka-clients"):
        jars.connector_jars()


def test_a_maven_or_java_that_hangs_is_given_up_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mvn", "bin/java"):
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
        program.chmod(0o755)
    monkeypatch.setenv("HEADGATE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(jars, "FETCH_TIMEOUT_S", 0.1)
    monkeypatch.setattr(jars, "JAVA_TIMEOUT_S", 0.1)
    with pytest.raises(jars.SetUpMissing, match="could not fetch Spark's"):
        jars.connector_jars()
    with pytest.raises(jars.SetUpMissing, match="java -version took more than"):
        jars.require_java()


def test_the_fetched_jars_are_those_that_are_looked_for() -> None:
    project = Path(jars.__file__).with_name("connectors.xml").read_text()
    found = re.findall(
        r"<artifactId>([^<]+)</artifactId><version>([^<]+)</version>", project
    )
    assert sorted(f"{name}-{version}.jar" for name, version in found) == sorted(
        jars.CONNECTORS
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "source"),
        ({"bootstrap": "b", "files": "f"}, "source"),
        ({"files": "f", "jobs": ("usage", "x")}, "'x'"),
        ({"files": "f", "alert_topic": "t"}, "alert_topic"),
        ({"files": "f", "lateness_s": 0.0}, "lateness_s"),
        ({"files": "f", "keep_days": {"counters": 9}}, "keep_days.*counters=9"),
        ({"files": "f", "keep_days": {"bill": 0}}, "keep_days.*bill=0"),
        ({"files": "f", "keep_days": {"bill": 10**6}}, "keep_days.*bill=1000000"),
        ({"files": "f", "lateness_s": float("inf")}, "lateness_s.*inf"),
        ({"files": "f", "trigger_s": float("nan")}, "trigger_s.*nan"),
        ({"files": "f", "api": "headgate:8080"}, "api: expected a URL"),
        ({"files": "f", "webhook": "http://hooks:port/"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "https:///path"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": f"http://{'a' * 64}.b/"}, "webhook: expected"),
        ({"files": "f", "webhook": "http://10.0.0.256/x"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "http://[v1.x]/"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "http://☃.net/"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "http://xn--a/"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "http://hooks:65536/"}, "webhook: expected a URL"),
        ({"files": "f", "webhook": "http://hooks:0/"}, "webhook: expected a URL"),
    ],
)
def test_wrong_settings_are_refused_by_name(
    wrong: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(WrongSettings, match=said):
        PipelineSettings(out=tmp_path.as_uri(), **wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_a_webhook_is_shown_neither_with_settings_nor_in_an_error() -> None:
    secret = "10.0.0.256/s3cret"
    settings = PipelineSettings(out="o", files="f", webhook="http://hooks/s3cret")
    assert "s3cret" not in repr(settings)
    with pytest.raises(WrongSettings, match="webhook") as refused:
        replace(settings, webhook=f"http://{secret}")
    shown = "".join(traceback.format_exception(refused.value))
    assert "10.0.0.256" not in shown
    assert "s3cret" not in shown


def test_an_unknown_job_and_a_missing_folder_are_one_line(tmp_path: Path) -> None:
    for arguments in (["run", "nonsense"], ["report", "--out", str(tmp_path)]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        assert len(result.output.strip().splitlines()) == 1


def test_a_burst_of_0_is_refused_and_not_replaced() -> None:
    result = CliRunner().invoke(
        app, ["what-if", "gold", "requests", "--rate", "5", "--burst", "0"]
    )
    assert (result.exit_code, result.output) == (
        1,
        "headgate pipeline: burst: expected > 0, got 0\n",
    )


def test_a_file_of_keys_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"\xff\xfe\x00")
    command = ["run", "--files", "f", "--report-keys", str(keys)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert result.output.strip().endswith("keys is no text in UTF-8")
    assert len(result.output.strip().splitlines()) == 1


def test_a_port_for_metrics_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        served = PipelineMetrics().served(port, "127.0.0.1")
        with pytest.raises(OSError, match="in use") as raised, served:
            pass
    assert raised.value.filename == f"metrics on 127.0.0.1:{port}"


def test_a_length_of_time_is_read_with_its_unit() -> None:
    assert [seconds(text) for text in ("90s", "5m", "1h", "7d")] == [
        90, 300, 3600, 604_800,
    ]  # fmt: skip
    with pytest.raises(WrongSettings, match="1h"):
        seconds("an hour")


def test_a_page_escapes_names_and_draws_each_group(tmp_path: Path) -> None:
    curve = Curve("<b>gold", "requests", [0, 10, 20], [9, 9, 9], [5, 5, 5], [6] * 3)
    summary = UsageSummary(
        0, 30, 2, 1, {"bytes": (9e9, 9e9), "requests": (270, 150)}, [curve], {},
        {"violations": 3},
    )  # fmt: skip
    page = write_page(summary, tmp_path).read_text()
    assert "<b>gold" not in page
    assert "&lt;b&gt;gold" in page
    assert (tmp_path / "group-01.png").read_bytes() == drawn(curve)
    assert "3 violations" in headline(summary)
    assert "requests: 270 units attempted, 55.6% admitted" in headline(summary)
    assert "not verified" in headline(summary)


def test_a_page_is_utf8_in_any_locale(tmp_path: Path) -> None:
    curve = Curve("Zürich", "requests", [0, 10], [9, 9], [5, 5], [6, 6])
    summary = UsageSummary(0, 30, 1, 1, {}, [curve], {}, {})
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        page = write_page(summary, tmp_path)
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    assert 'alt="Zürich, requests"' in page.read_bytes().decode("utf-8")


def test_what_people_read_are_columns_of_the_tables() -> None:
    for name, columns in COLUMNS.items():
        shown = (*columns, *FURTHER.get(name, ()))
        assert set(shown) <= set(TABLES[name].names)
        assert len(set(shown)) == len(shown)
    assert set(COLUMNS) == set(TITLES)


def test_a_name_in_brackets_is_printed_as_it_is() -> None:
    row = Row(**dict.fromkeys(TABLES["gaps"].names, "[red]"))
    summary = UsageSummary(0, 30, 1, 1, {}, [], {"gaps": [row]}, {"gaps": 1})
    text = io.StringIO()
    print_summary(summary, Console(file=text, width=200))
    assert "[red]" in text.getvalue()


def test_the_effect_of_a_limit_names_groups_and_agents_as_they_are() -> None:
    effect: dict[str, object] = dict.fromkeys(
        ("attempted", "admitted", "admitted_then", "refused_then"), 1.0
    )
    text = io.StringIO()
    console = Console(file=text, width=200)
    print_effect("gold [eu]: requests", [effect | {"agent": "[/red]"}], console)
    assert "gold [eu]: requests" in text.getvalue()
    assert "[/red]" in text.getvalue()


def test_a_name_with_dollar_signs_is_drawn_as_it_is() -> None:
    assert drawn(Curve(r"$\frac$", "requests", [0, 10], [9, 9], [5, 5], [6, 6]))
