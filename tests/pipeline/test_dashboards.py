"""The pipeline's metrics, and that dashboards and alerts ask for what exists."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, cast

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from headgate.pipeline.stream.batch_log import BatchSummary, Loss
from headgate.pipeline.stream.metrics import PipelineMetrics
from headgate.pipeline.stream.progress import waiting
from headgate.pipeline.tables.jvm import execute
from headgate.pipeline.tables.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

BATCH = BatchSummary(
    batch=3,
    window_us=10_000_000,
    reference_us=1_760_000_425_000_000,
    watermark_us=1_760_000_415_000_000,
    kinds={"dead": 2, "gap": 1, "usage": 9},
    rows=500,
    messages=100,
    losses=[Loss(topic="usage", partition=0, expected=5, found=45)],
)

TIMES = ("heard_until_seconds", "closed_until_seconds")

METRIC = re.compile(r"\bheadgate_pipeline_[a-z_]+\b")


def scraped(
    *lags: int | None, batch: BatchSummary = BATCH, known: BatchSummary | None = None
) -> dict[str, float]:
    """What a Prometheus finds after a batch for each of `lags`."""
    metrics = PipelineMetrics()
    metrics.resume(known)
    for lag in lags:
        metrics.observe(batch, 7.5, lag)
    with metrics.served(0, "127.0.0.1") as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in families
        for sample in family.samples
    }


def test_lag_time_and_dead_letters_of_batches_are_scraped() -> None:
    found = scraped(400, 30)
    assert found["headgate_pipeline_batches_total"] == 2
    assert found["headgate_pipeline_messages_total"] == 200
    assert found["headgate_pipeline_rows_total"] == 1000
    assert found["headgate_pipeline_dead_letters_total"] == 4
    assert found["headgate_pipeline_lost_messages_total"] == 80
    assert found["headgate_pipeline_gaps_total"] == 2
    assert found["headgate_pipeline_lag_messages"] == 30
    assert found["headgate_pipeline_batch_seconds_sum"] == 15
    assert found["headgate_pipeline_batch_seconds_bucket5.0"] == 0
    assert found["headgate_pipeline_batch_seconds_bucket10.0"] == 2
    assert found["headgate_pipeline_heard_until_seconds"] == 1_760_000_425
    assert found["headgate_pipeline_closed_until_seconds"] == 1_760_000_410
    unknown = scraped(None)["headgate_pipeline_lag_messages"]
    assert isnan(unknown)  # files have no lag, which is not a lag of zero


def test_nothing_is_known_before_the_first_batch() -> None:
    found = scraped()
    for name in ("lag_messages", *TIMES):
        assert isnan(found[f"headgate_pipeline_{name}"])
    assert found["headgate_pipeline_batches_total"] == 0


def test_the_times_of_the_output_are_known_before_the_first_batch() -> None:
    found = scraped(known=BATCH)
    assert found["headgate_pipeline_heard_until_seconds"] == 1_760_000_425
    assert found["headgate_pipeline_closed_until_seconds"] == 1_760_000_410
    assert isnan(found["headgate_pipeline_lag_messages"])
    assert found["headgate_pipeline_batches_total"] == 0


def test_batches_without_a_report_leave_times_unknown() -> None:
    unheard = replace(BATCH, reference_us=0, watermark_us=0)
    for found in (scraped(0, batch=unheard), scraped(known=unheard)):
        for name in TIMES:
            assert isnan(found[f"headgate_pipeline_{name}"])


def test_the_lag_is_what_all_partitions_hold_less_what_the_batch_has_read() -> None:
    # Of a broker with three partitions of a hundred messages, after the first batch.
    begun = {
        "description": "KafkaV2[Subscribe[usage]]",
        "startOffset": None,
        "endOffset": {"usage": {"0": 30, "1": 30, "2": 30}},
        "latestOffset": {"usage": {"0": 100, "1": 100, "2": 100}},
    }
    progress = json.dumps({"sources": [begun]})
    assert waiting(progress, {"usage/0": 60, "usage/1": 60, "usage/2": 60}) == 120
    assert waiting(progress, {"usage/0": 100, "usage/1": 170, "usage/2": 100}) == 0
    assert waiting(progress, {"usage/0": 100}) == 140
    files = {"description": "FileStreamSource", "endOffset": {"logOffset": 0}}
    assert waiting(json.dumps({"sources": [files]}), {}) is None


def panels(name: str) -> list[dict[str, object]]:
    board = json.loads((DEPLOY / "grafana" / name).read_text(encoding="utf-8"))
    return cast("list[dict[str, object]]", board["panels"])


def rules() -> list[dict[str, object]]:
    text = (DEPLOY / "prometheus/pipeline.rules.yml").read_text(encoding="utf-8")
    (group,) = yaml.safe_load(text)["groups"]
    return cast("list[dict[str, object]]", group["rules"])


def test_panels_and_alerts_ask_for_metrics_that_exist() -> None:
    exist = {re.sub(r"\d.*|\+Inf", "", name) for name in scraped(1)}
    asked = {
        target["expr"]
        for panel in panels("pipeline.json")
        for target in cast("list[dict[str, str]]", panel["targets"])
    } | {cast("str", rule["expr"]) for rule in rules()}
    named = {name for expression in asked for name in METRIC.findall(expression)}
    assert len(named) > 8
    assert named - exist == set()


def test_each_alert_of_the_pipeline_says_what_it_means() -> None:
    for rule in rules():
        said = cast("dict[str, str]", rule["annotations"])
        assert said.keys() == {"summary", "description"}
        assert cast("dict[str, str]", rule["labels"])["severity"] in {
            "info", "warning", "critical",
        }  # fmt: skip
    prometheus = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    assert "pipeline.rules.yml" in prometheus["rule_files"]
    jobs = {job["job_name"] for job in prometheus["scrape_configs"]}
    assert "headgate-pipeline" in jobs


def test_the_dashboard_of_usage_asks_for_columns_that_tables_have(
    spark: SparkSession,
) -> None:
    for name, schema in TABLES.items():
        spark.createDataFrame([], schema).createOrReplaceTempView(name)
    found = panels("usage.json")
    for panel in found:
        (target,) = cast("list[dict[str, str]]", panel["targets"])
        # Trino quotes names as the standard says, Spark with backticks.
        query = target["rawSQL"].replace('"', "`")
        query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 > now()", query)
        execute(spark, query)
    assert len(found) == 10
