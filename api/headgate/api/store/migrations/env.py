"""Alembic's entry: run the migrations on the connection that `upgrade` holds."""

from alembic import context

from headgate.api.store.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
)
context.run_migrations()
