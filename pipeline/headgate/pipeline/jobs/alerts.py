"""Violations and starved agents as alerts: to a Kafka topic, to a webhook.

Delivered at least once: after a crash the alerts of the last batch may come again
with the same ids, so that a receiver can drop them.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import httpx
from pyspark.sql import functions as f

from headgate.pipeline.jobs.usage import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

log = logging.getLogger("headgate.pipeline")

MOST = 1_000
"""Alerts of one batch and kind: an incident of a whole cluster must not be a flood.
The tables hold all of them."""

PER_POST = 100
"""Alerts in one request to a webhook."""

TIMEOUT_S = 5.0
"""Timeout of one request: a slow receiver must not hold up the tables."""


def alerts(violations: DataFrame, starved: DataFrame) -> DataFrame:
    """Return alerts: ``id``, ``kind`` and a JSON ``body``, worst first, bounded."""
    return _worst(violations, "violation", "excess").unionByName(
        _worst(starved, "starved", "lacking")
    )


def to_kafka(found: DataFrame, topic: str, options: Mapping[str, str]) -> None:
    """Write alerts to a topic, with the id as key."""
    rows = found.select(f.col("id").alias("key"), f.col("body").alias("value"))
    rows.write.format("kafka").options(**options).option("topic", topic).save()


def to_webhook(found: DataFrame, url: str) -> int:
    """Post alerts as JSON lists; return how many were accepted.

    A receiver that fails is logged, not fatal: the tables hold all.  Its address is not
    logged, because the addresses of many webhooks are secrets.
    """
    bodies = [json.loads(row["body"]) for row in found.select("body").collect()]
    taken = 0
    for start in range(0, len(bodies), PER_POST):
        part = bodies[start : start + PER_POST]
        try:
            answer = httpx.post(url, json={"alerts": part}, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            log.warning("the webhook did not accept the alerts: %s", error)
            break
        if not answer.is_success:
            status = f"{answer.status_code} {answer.reason_phrase}"
            log.warning("the webhook did not accept the alerts: %s", status)
            break
        taken += len(part)
    return taken


def _worst(rows: DataFrame, kind: str, amount: str) -> DataFrame:
    """Return the `MOST` rows with the largest `amount` as alerts."""
    agent = [f.col("agent")] if "agent" in rows.columns else []
    window = f.unix_seconds("window_start").cast("string")
    name = f.concat_ws(
        "/", f.lit(kind), window, f.col("group_id"), f.col("dimension"), *agent
    )
    named = (
        rows.orderBy(f.col(amount).desc(), *KEYS, *agent)
        .limit(MOST)
        .withColumn("id", name)
        .withColumn("kind", f.lit(kind))
    )
    body = f.to_json(f.struct("id", "kind", *rows.columns))
    return named.select("id", "kind", body.alias("body"))
