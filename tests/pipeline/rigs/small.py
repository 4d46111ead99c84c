"""What makes a Spark session small and quick to start."""

from __future__ import annotations

SMALL: dict[str, str] = {
    "spark.sql.shuffle.partitions": "2",
    # A few rows a query: planning again and compiling costs more than running.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without the optimising compiler the JVM reserves a fifth of its usual space for
    # code, and a tenth of its time went into sweeping it.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        " -XX:+UseSerialGC -Xshare:auto"
    ),
}
"""For the session of the tests, and of the drivers that they kill."""
