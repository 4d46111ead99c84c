"""Rows of transfers as reports carry them, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.transfer import name_transfer
from headgate.coordinator.messages.report import Grants

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headgate.coordinator.escrow.transfer import Row
    from headgate.coordinator.table.index import Key


def grants_of(told: Iterable[tuple[Key, list[Row]]], sender: str) -> tuple[Grants, ...]:
    """Return what a report carries.

    Args:
        told: Rows by the table that they are of.
        sender: The holder that sends it.
    """
    columns: dict[str, list[tuple[int, str, float, float]]] = {}
    for (dimension, group_id), of_table in told:
        for giver, receiver, given, tokens in of_table:
            name = name_transfer(giver, receiver, sender)
            row = group_id, name, given, tokens
            columns.setdefault(dimension, []).append(row)
    grants: list[Grants] = []
    for dimension, rows in columns.items():
        tokens_of_all = np.array([row[3] for row in rows])
        grants.append(
            Grants(
                dimension=dimension,
                group_ids=np.array([row[0] for row in rows], dtype=np.int64),
                receivers=tuple(row[1] for row in rows),
                given=np.array([row[2] for row in rows]),
                tokens=tokens_of_all if tokens_of_all.any() else None,
            )
        )
    return tuple(grants)


def rows_in(grants: Iterable[Grants]) -> Iterator[tuple[Key, str, float, float]]:
    """Yield table, name of the transfer, parts and tokens of each row."""
    for each in grants:
        tokens = [0.0] * len(each.given) if each.tokens is None else each.tokens
        columns = each.group_ids.tolist(), each.receivers, each.given.tolist(), tokens
        for group_id, name, given, units in zip(*columns, strict=True):
            yield (each.dimension, group_id), name, given, float(units)
