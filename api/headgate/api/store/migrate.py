"""Bring a database to the schema of this version, with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine

ADVISORY_LOCK = 0x68656164
"""Key of PostgreSQL's advisory lock that keeps two starting servers apart."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run all migrations that the database behind `engine` has not seen."""
    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    with engine.connect() as connection:
        connection = connection.execution_options(headgate_writes=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql(
                    f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"
                )
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
