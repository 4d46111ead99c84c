"""All of the simulation plays minutes of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent

REPEATS = (
    # Seeds of the soak that take ten seconds of a core or more.
    *(f"does_so_no_more[{seed}]" for seed in (5272567, 5474536, 5474563)),
    *(f"does_so_no_more[{seed}]" for seed in (8800000, 8810009)),
    # Further seeds.
    *("breaks[twenty-1]", "burst-2]", "6,000-2]", "deep-2]", "breaks[cut-2]"),
    *("the_limit[2]", "the_limit[3]", "keep_its_bound[2]"),
    # The library's sample plays the same.
    "a_branch_beside_its_children",
    # Other values of what is tested with one.
    *("by_one_that_asks_often[35.0-False]", "by_one_that_asks_often[350.0-True]"),
    *("is_not_starved[demand2-lower2]", "get_most_of_what_they_want"),
    *("silent_the_others_go_on", "beside_large_ones[20.0]"),
)
"""Parts of the names of tests that `make simulated` runs, and `make test` does not."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.long)
            if any(part in item.name for part in REPEATS):
                item.add_marker(pytest.mark.thorough)
