"""Archive the classes of a small Spark session, once, into ``.headgate``.

``python -m tools.spark_classes``: two dozen tests start a Java process for Spark, which
spends a third of its start on loading and checking classes.  From the archive Java
loads them ready for use; without it, or with another Java, it does what it always does.
"""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame

FOLDER = Path(__file__).parents[1] / ".headgate" / "spark-classes"


def archive() -> Path:
    """Return the path of the archive for this Java and this Spark.

    Raises:
        OSError: There is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = [str(Path(home, "bin", "java")) if home else "java", "-version"]
    said = subprocess.run(java, capture_output=True, text=True, check=False).stderr
    # Java checks where the jars are, and how old.
    jars = Path(pyspark.__file__).parent / "jars"
    build = f"{said}{jars}{jars.stat().st_mtime_ns}"
    return FOLDER / f"{hashlib.sha256(build.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """Return the Java options that use the archive, if there is one."""
    try:
        path = archive()
    except OSError:
        return ""
    return f"-XX:SharedArchiveFile={path} -Xlog:disable" if path.exists() else ""


def build() -> None:
    """Write the archive unless it exists or can't be written."""
    try:
        path = archive()
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if path.exists():
        return
    from tests.pipeline.rigs.small import SMALL

    from headgate.pipeline.stream.session import local_session

    written = path.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:ArchiveClassesAtExit={written} -Xlog:disable"
    )
    session = local_session(cores=2, memory="512m", more=SMALL)
    with tempfile.TemporaryDirectory() as scratch:
        table = f"{scratch}/table"
        for _ in range(2):
            rows = session.range(8).selectExpr("id", "id % 3 AS part")
            rows.write.format("delta").mode("append").save(table)
        stream = session.readStream.format("delta").load(table)
        query = (
            stream.groupBy("part")
            .count()
            .writeStream.outputMode("complete")
            .foreachBatch(_collect)
            .option("checkpointLocation", f"{scratch}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    context: Any = session.sparkContext  # its process is not public
    java: subprocess.Popen[bytes] = context._gateway.proc
    session.stop()
    java.communicate()  # ends it, by closing its stdin
    if java.returncode == 0 and written.exists():  # not every Java can write one
        written.replace(path)
    for other in set(FOLDER.iterdir()) - {path}:  # of another Java, or half written
        other.unlink()


def _collect(batch: DataFrame, number: int) -> None:
    batch.persist().collect()


if __name__ == "__main__":
    build()
