"""The table of stored levels: not part of the configuration or of any revision."""

from sqlalchemy import BigInteger, Text
from sqlalchemy.orm import Mapped, mapped_column

from headgate.api.store.tables import StoreTable


class LevelRow(StoreTable):
    """The level of one ledger when it was last seen."""

    __tablename__ = "levels"

    group_id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False
    )
    dimension: Mapped[str] = mapped_column(Text, primary_key=True)
    level: Mapped[float]
    at_s: Mapped[float]
