"""What spark-submit is given: the command ``headgate pipeline``.

In a folder of its own, because spark-submit puts the folder of its file before all
others on the path for imports.
"""

from headgate.pipeline.command import app

if __name__ == "__main__":
    app()
