"""The file to pass to spark-submit: the command ``headgate pipeline``.

It is in a folder of its own, because spark-submit puts that folder first on the import
path.
"""

from headgate.pipeline.command import app

if __name__ == "__main__":
    app()
