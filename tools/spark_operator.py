"""Fetch the schema of Spark's Kubernetes operator, for a test that checks a manifest.

``python -m tools.spark_operator``: a Go module of 2 MB, for which Go's checksum
database vouches; nothing is compiled.
"""

import json
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/kubeflow/spark-operator/v2@v2.5.2"
"""Any newer version would do; a pinned one is the same tomorrow."""

FETCH_S = 300
"""Timeout of the download, which takes two seconds."""

_CRD = "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml"


def crd() -> Path:
    """Return the definition of ``SparkApplication``, fetching it on the first call.

    Raises:
        SystemExit: It can't be fetched; says why.
    """
    done = subprocess.run(
        ["go", "mod", "download", "-json", MODULE],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{MODULE}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"]) / _CRD


if __name__ == "__main__":
    sys.stdout.write(f"{crd()}\n")
