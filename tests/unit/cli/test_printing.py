"""Tables of a terminal's width keep the telling part of long names."""

from __future__ import annotations

import pytest

from headgate.cli.output.printing import cell_width, cut_middle, table_lines

NAMES = [f"checkout-service-7f9c-prod-{zone}" for zone in ("eu-west-1", "us-east-2")]


def test_names_that_begin_alike_can_be_told_apart_in_a_narrow_table() -> None:
    rows = [[name, "1,000", "requests=1,000/s burst 1,000"] for name in NAMES]
    lines = table_lines(["group", "agents>", "limits"], rows, 60)
    assert max(map(len, lines)) == 60
    assert all(name[-9:] in line for name, line in zip(NAMES, lines[2:], strict=True))


def test_without_a_width_nothing_is_cut() -> None:
    lines = table_lines(["group"], [[name] for name in NAMES], None)
    assert lines[2:] == NAMES


def test_a_table_that_can_not_fit_keeps_a_part_of_each_column() -> None:
    lines = table_lines(["a", "b"], [["x" * 50, "y" * 50]], 5)
    assert lines[2].count("…") == 2
    assert len(lines[2]) == 27


@pytest.mark.parametrize("width", range(12))
def test_a_cut_is_never_wider_than_its_room(width: int) -> None:
    for text in ("abcdefghijklmnop", "金銀銅鉄金銀銅鉄", "a金b銀c銅d鉄e金"):
        assert cell_width(cut_middle(text, width)) <= width
