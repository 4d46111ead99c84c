"""The file to pass to spark-submit."""
