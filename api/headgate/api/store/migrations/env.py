"""Alembic's entry: run the migrations on the connection that `upgrade` holds."""

from alembic import context

from headgate.api.store.tables import StoreTable

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=StoreTable.metadata,
    transactional_ddl=True,
)
context.run_migrations()
