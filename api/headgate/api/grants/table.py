"""The table of grants: not part of the configuration or of any revision."""

from sqlalchemy import ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from headgate.api.store.tables import StoreTable


class GrantRow(StoreTable):
    """A strict limit, or the slots of a group, that may not be granted any more."""

    __tablename__ = "grants"

    group_id: Mapped[int] = mapped_column(
        ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True
    )
    dimension: Mapped[str] = mapped_column(Text, primary_key=True)
