"""A typo through a whole agent: warned of, or raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import until

from headgate.agent import NoLimitApplies

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join


def test_a_typo_is_warned_of_and_counted(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    assert agent.limiter(tenant="acme").try_acquire(request=1)
    until(lambda: "did you mean 'requests'?" in caplog.text, "the warning")
    assert agent.metrics()["dimensions_without_limit"] == 1


def test_a_typo_raises_in_a_strict_agent(join: Join) -> None:
    agent = join("a", strict=True)
    with pytest.raises(NoLimitApplies, match="did you mean 'acme'"):
        agent.limiter(tenant="acm").try_acquire(requests=1)
    assert agent.limiter(tenant="acme").try_acquire(requests=1)
